"""Params of adaptive parallel reasoning (APR): problems and traces."""

from typing import Literal

from pydantic import model_validator

from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.params.sections import Count, Fraction, Section


class ThreadSearchParams(Section):
    """Breadth of the searches of one kind; a beam is drawn for each problem, uniformly."""

    beam_low: Count
    beam_high: Count
    sub_beam: Count
    """compact: operations at each node of a child, or of a serial search, which has no other beam.
    published: the highest beam of a child, drawn from the parent's beam on; serial searches have one beam."""
    branch: Fraction
    """published: probability that found nodes are searched on their own. compact: not used, the root of a
    parallel search always spawns."""

    @model_validator(mode="after")
    def _beams(self) -> "ThreadSearchParams":
        if self.beam_low > self.beam_high:
            raise ValueError(f"beam_low={self.beam_low} is above beam_high={self.beam_high}")
        return self


class AdaptiveDataParams(Section):
    """Countdown problems, and the traces of their searches."""

    countdown: CountdownParams = CountdownParams()
    """Ranges of the numbers; threads need at least 3 numbers."""
    train_problems: Count = 8000
    valid_problems: Count = 500
    test_problems: Count = 1000
    style: Literal["compact", "published"] = "compact"
    max_value: Count = 100
    """compact: operations with a larger result are left out."""
    parallel: ThreadSearchParams = ThreadSearchParams(
        beam_low=2, beam_high=9, sub_beam=4, branch=1.0
    )
    serial: ThreadSearchParams = ThreadSearchParams(beam_low=2, beam_high=9, sub_beam=4, branch=0.5)
    shard_size: Count = 500
    """Problems per file of traces, the unit of work and resume."""

    @model_validator(mode="after")
    def _numbers(self) -> "AdaptiveDataParams":
        if self.countdown.num_numbers < 3:
            raise ValueError(
                f"countdown.num_numbers={self.countdown.num_numbers}; a spawn needs at least 3 numbers"
            )
        return self


class AdaptiveParams(Section):
    """Adaptive parallel reasoning (APR), from traces to evaluation."""

    data: AdaptiveDataParams = AdaptiveDataParams()
