"""Differences of accuracy on the same problems: between models, and at equal drawn tokens."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pipeline_lib.adaptive.evaluation.figures import (
    DrawnRows,
    ModelSetting,
    bounds,
    problem_scores,
)
from pipeline_lib.adaptive.evaluation.votes import any_sample_scores, consensus_scores
from pipeline_lib.adaptive.rollouts import Row
from pipeline_lib.evaluation.statistics.paired import PairedDifference, paired_difference
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.seeding import child_seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two models at one temperature."""

    base: ModelSetting
    model: ModelSetting
    problems: int
    """That both have."""
    difference: PairedDifference
    """``model`` minus ``base``."""

    def row(self) -> Row:
        """As in metrics.json."""
        return {
            "model": self.model.name,
            "base": self.base.name,
            "condition": self.model.condition,
            "base_condition": self.base.condition,
            "temperature": self.model.temperature,
            "problems": self.problems,
            **_difference_row(self.difference),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualTokens:
    """One rollout of a parallel model against as many of a serial one as draw the same number of tokens."""

    parallel: ModelSetting
    serial: ModelSetting
    samples: int
    """The fewest of the serial model that draw at least as many tokens."""
    problems: int
    drawn_tokens: float
    serial_drawn_tokens: float
    """Of all samples."""
    over_consensus: PairedDifference
    """Parallel minus the serial model's vote."""
    over_any_sample: PairedDifference
    """Parallel minus the serial model's pass@k, an upper bound of every choice among the samples."""

    def row(self) -> Row:
        """As in metrics.json."""
        return {
            "model": self.parallel.name,
            "base": self.serial.name,
            "condition": self.parallel.condition,
            "base_condition": self.serial.condition,
            "temperature": self.parallel.temperature,
            "base_temperature": self.serial.temperature,
            "base_samples": self.samples,
            "problems": self.problems,
            "drawn_tokens": self.drawn_tokens,
            "base_drawn_tokens": self.serial_drawn_tokens,
            "over_consensus": _difference_row(self.over_consensus),
            "over_pass_upper_bound": _difference_row(self.over_any_sample),
        }


def compare_models(
    drawn: Sequence[DrawnRows], params: EvaluateParams, *, seed: int
) -> list[Comparison]:
    """All pairs of different models at one temperature, on the problems that both have.

    A pair of both kinds is parallel minus serial, any other one the later minus the earlier.
    """
    found = []
    for first, second in combinations(drawn, 2):
        settings = first.setting, second.setting
        if settings[0].name == settings[1].name or len({s.temperature for s in settings}) > 1:
            continue
        flipped = [setting.kind for setting in settings] == ["parallel", "serial"]
        base, model = (second, first) if flipped else (first, second)
        scores = problem_scores(base.rows), problem_scores(model.rows)
        names = [name for name in scores[0] if name in scores[1]]
        if names:
            label = (base.setting.label, model.setting.label)
            found.append(
                Comparison(
                    base=base.setting,
                    model=model.setting,
                    problems=len(names),
                    difference=_paired(
                        names, *scores, params, seed=child_seed(seed, "apr", *label)
                    ),
                )
            )
    return found


def compare_at_equal_tokens(
    drawn: Sequence[DrawnRows], params: EvaluateParams, *, seed: int
) -> list[EqualTokens]:
    """Each parallel setting against each serial one with several samples, if they draw enough tokens."""
    return [
        found
        for parallel in drawn
        if parallel.setting.kind == "parallel"
        for serial in drawn
        if serial.setting.kind == "serial" and any(row["sample"] for row in serial.rows)
        if (found := _at_equal_tokens(parallel, serial, params, seed=seed)) is not None
    ]


def _at_equal_tokens(
    parallel: DrawnRows, serial: DrawnRows, params: EvaluateParams, *, seed: int
) -> EqualTokens | None:
    """None if no problem has enough samples of the serial model."""
    spent, each = _mean_drawn(parallel.rows), _mean_drawn(serial.rows)
    samples = math.ceil(spent / each)
    scores = problem_scores(parallel.rows)
    votes, bound = (of(serial.rows, samples) for of in (consensus_scores, any_sample_scores))
    names = [name for name in scores if name in votes]
    if not names:
        return None
    own = child_seed(seed, "apr", "equal tokens", parallel.setting.label, serial.setting.label)
    return EqualTokens(
        parallel=parallel.setting,
        serial=serial.setting,
        samples=samples,
        problems=len(names),
        drawn_tokens=spent,
        serial_drawn_tokens=samples * each,
        over_consensus=_paired(names, votes, scores, params, seed=own),
        over_any_sample=_paired(names, bound, scores, params, seed=own),
    )


def _mean_drawn(rows: Sequence[Row]) -> float:
    return float(np.mean([row["tokens"]["drawn"] for row in rows if "error" not in row]))


def _paired(
    names: Sequence[str],
    base: Mapping[str, float],
    model: Mapping[str, float],
    params: EvaluateParams,
    *,
    seed: int,
) -> PairedDifference:
    return paired_difference(
        np.array([base[name] for name in names]),
        np.array([model[name] for name in names]),
        resamples=params.resamples,
        level=params.confidence_level,
        seed=seed,
    )


def _difference_row(found: PairedDifference) -> Row:
    return {
        "difference": bounds(found.interval),
        "p_value": found.p_value,
        "finding": found.finding.value,
    }
