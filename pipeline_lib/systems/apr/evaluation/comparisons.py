"""Differences of accuracy on the same problems: between models, at equal drawn tokens, at an equal critical path."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.statistics.paired import PairedDifference, paired_difference
from pipeline_lib.systems.apr.evaluation.figures import DrawnRows, ModelSetting, problem_scores
from pipeline_lib.systems.apr.evaluation.votes import any_sample_scores, consensus_scores
from pipeline_lib.systems.apr.rollouts import Row


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
    """Those with enough samples."""
    drawn_tokens: float
    serial_drawn_tokens: float
    """Of all samples."""
    over_consensus: PairedDifference | None
    """Parallel minus the serial model's vote; None without problems."""
    over_any_sample: PairedDifference | None
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
            "over_consensus": self.over_consensus and _difference_row(self.over_consensus),
            "over_pass_upper_bound": self.over_any_sample and _difference_row(self.over_any_sample),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualPath:
    """A parallel model against a serial one, whose rollouts are wrong if they draw more than ``critical_tokens``."""

    comparison: Comparison
    """Parallel minus serial."""
    both_cut: PairedDifference
    """The same where parallel rollouts, too, are wrong if their critical path is longer."""
    critical_tokens: float
    """Mean critical path of the parallel model."""
    serial_critical_tokens: float
    """The same of the serial one, whose rollouts end there."""
    serial_accuracy: float

    def row(self) -> Row:
        """As in metrics.json."""
        return {
            **self.comparison.row(),
            "critical_tokens": self.critical_tokens,
            "base_critical_tokens": self.serial_critical_tokens,
            "base_accuracy": self.serial_accuracy,
            "both_cut": _difference_row(self.both_cut),
        }


def compare_models(
    drawn: Sequence[DrawnRows], params: EvaluateParams, *, seed: int
) -> list[Comparison]:
    """All pairs of different models at one temperature, on the problems that both have.

    A pair of both kinds is parallel minus serial, any other one the later minus the earlier.
    """
    found = []
    for (place, first), (later, second) in itertools.combinations(enumerate(drawn), 2):
        settings = first.setting, second.setting
        if settings[0].name == settings[1].name or len({s.temperature for s in settings}) > 1:
            continue
        flipped = [setting.kind for setting in settings] == ["parallel", "serial"]
        base, model = (second, first) if flipped else (first, second)
        scores = problem_scores(base.rows), problem_scores(model.rows)
        names = [name for name in scores[0] if name in scores[1]]
        if names:
            found.append(
                Comparison(
                    base=base.setting,
                    model=model.setting,
                    problems=len(names),
                    difference=_paired(
                        names, *scores, params, seed=child_seed(seed, "apr", "pair", place, later)
                    ),
                )
            )
    return found


def compare_at_equal_tokens(
    drawn: Sequence[DrawnRows], params: EvaluateParams, *, seed: int
) -> list[EqualTokens]:
    """Each parallel setting against each serial one with several samples."""
    return [
        _at_equal_tokens(
            parallel, serial, params, seed=child_seed(seed, "apr", "equal tokens", *places)
        )
        for places, parallel, serial in _of_both_kinds(drawn)
        if any(row["sample"] for row in serial.rows)
    ]


def compare_at_equal_path(
    drawn: Sequence[DrawnRows], params: EvaluateParams, *, seed: int
) -> list[EqualPath]:
    """Each parallel setting against each serial one at its temperature, on the problems that both have."""
    found = []
    for places, parallel, serial in _of_both_kinds(drawn):
        if parallel.setting.temperature != serial.setting.temperature:
            continue
        most = _mean_tokens(parallel.rows, "critical")
        scores = problem_scores(parallel.rows)
        own_cut, cut = (_cut_scores(one.rows, most) for one in (parallel, serial))
        names = [name for name in scores if name in cut]
        if names:
            own = child_seed(seed, "apr", "equal path", *places)
            found.append(
                EqualPath(
                    comparison=Comparison(
                        base=serial.setting,
                        model=parallel.setting,
                        problems=len(names),
                        difference=_paired(names, cut, scores, params, seed=own),
                    ),
                    both_cut=_paired(names, cut, own_cut, params, seed=child_seed(own, "both cut")),
                    critical_tokens=most,
                    serial_critical_tokens=_mean_tokens(serial.rows, "critical", most=most),
                    serial_accuracy=float(np.mean([cut[name] for name in names])),
                )
            )
    return found


def _of_both_kinds(
    drawn: Sequence[DrawnRows],
) -> Iterator[tuple[tuple[int, int], DrawnRows, DrawnRows]]:
    """All pairs of a parallel and a serial setting, with their places."""
    for (place, first), (other, second) in itertools.product(enumerate(drawn), repeat=2):
        if (first.setting.kind, second.setting.kind) == ("parallel", "serial"):
            yield (place, other), first, second


def _at_equal_tokens(
    parallel: DrawnRows, serial: DrawnRows, params: EvaluateParams, *, seed: int
) -> EqualTokens:
    spent, each = (_mean_tokens(one.rows, "drawn") for one in (parallel, serial))
    samples = math.ceil(spent / each)
    scores = problem_scores(parallel.rows)
    votes, bound = (of(serial.rows, samples) for of in (consensus_scores, any_sample_scores))
    names = [name for name in scores if name in votes]
    return EqualTokens(
        parallel=parallel.setting,
        serial=serial.setting,
        samples=samples,
        problems=len(names),
        drawn_tokens=spent,
        serial_drawn_tokens=samples * each,
        over_consensus=_paired(names, votes, scores, params, seed=seed) if names else None,
        over_any_sample=_paired(names, bound, scores, params, seed=seed) if names else None,
    )


def _cut_scores(rows: Sequence[Row], most: float) -> dict[str, float]:
    """The share of right rollouts by problem; those with a critical path above ``most`` are wrong."""
    return problem_scores(
        [
            row
            if "error" in row
            else {**row, "is_correct": row["is_correct"] and row["tokens"]["critical"] <= most}
            for row in rows
        ]
    )


def _mean_tokens(rows: Sequence[Row], count: str, *, most: float = math.inf) -> float:
    return float(np.mean([min(row["tokens"][count], most) for row in rows if "error" not in row]))


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
        params,
        seed=seed,
    )


def _difference_row(found: PairedDifference) -> Row:
    return {
        "difference": found.interval.row(),
        "p_value": found.p_value,
        "finding": found.finding.value,
    }
