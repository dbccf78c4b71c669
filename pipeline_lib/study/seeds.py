"""One system with several seeds: the headline difference of each, their mean, intervals over problems and over seeds."""

import itertools
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.seeding import child_seed
from pipeline_lib.store.files import write_json
from pipeline_lib.study.headline import measured, not_held_out
from pipeline_lib.study.pages.page import REPORT_NAME, Page, write_page
from pipeline_lib.study.pages.wording import difference, p_equation, points
from pipeline_lib.study.statistics.intervals import (
    Floats,
    PairedDifference,
    paired_difference,
    t_interval,
)
from pipeline_lib.study.stored import Evaluation, ProblemKey, StoredSeries
from pipeline_lib.study.study import Difference, Study, bare_study

SEEDS_NAME = "seeds"

Values = Mapping[ProblemKey, tuple[float, float]]
"""Of the arm and of its reference, by problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedStudy:
    """The headline differences of one system by seed, and what they give together."""

    evaluations: Sequence[Evaluation]
    """One a seed."""
    params: EvaluateParams
    differences: Mapping[int, Difference]
    """By seed."""
    mean: float
    """Mean of the differences."""
    over_problems: PairedDifference | None
    """Of the means over seeds of each problem; None if values of a seed are not stored."""
    num_problems: int
    """Distinct ones."""
    over_seeds: Interval | None
    """None with one seed."""

    def row(self) -> dict[str, Any]:
        """The content of seeds.json."""
        problems, seeds = self.over_problems, self.over_seeds
        return {
            "system": self.evaluations[0].study.system,
            "level": self.params.confidence_level,
            "seeds": [{"seed": seed, **asdict(one)} for seed, one in self.differences.items()],
            "mean": self.mean,
            "over_problems": problems
            and {**problems.interval.row(), "p": problems.p_value, "n": self.num_problems},
            "over_seeds": seeds and {**seeds.row(), "n": len(self.differences)},
        }


def study_seeds(evaluations: Sequence[Evaluation], params: EvaluateParams) -> SeedStudy | None:
    """Put the seeds of one system together; None if none of them has a headline difference.

    Args:
        evaluations: one a seed.
        params: resamples and confidence_level.
    """
    heads = [(one, head) for one in evaluations if (head := one.study.headline) is not None]
    if not heads:
        return None
    gains = [head.value for _, head in heads]
    stored = [values for one, head in heads if (values := compared_values(one, head)) is not None]
    pairs_PA = _means(stored if len(stored) == len(heads) else [])
    seed = child_seed(heads[0][0].study.seed, "seeds", "problems")
    return SeedStudy(
        evaluations=evaluations,
        params=params,
        differences={one.study.seed: head for one, head in heads},
        mean=fmean(gains),
        over_problems=paired_difference(pairs_PA[:, 1], pairs_PA[:, 0], params, seed=seed)
        if len(pairs_PA)
        else None,
        num_problems=len(pairs_PA),
        over_seeds=t_interval(gains, params),
    )


def compared_values(evaluation: Evaluation, one: Difference) -> Values | None:
    """The values behind a difference; None if they are not stored.

    The file names one measure for both arms, but the reference can have another. So the series are those whose
    means on shared problems are the two of the difference, at best of the measure and the subset named.
    """

    def of(arm: str) -> list[StoredSeries]:
        found = [
            series for series in evaluation.series if (series.arm, series.set) == (arm, one.set)
        ]
        named = (one.measure, one.subset)
        return sorted(found, key=lambda series: (series.measure, series.subset) != named)

    for arm, reference in itertools.product(of(one.arm), of(one.reference)):
        shared = [key for key in arm.values if key in reference.values]
        if (
            shared
            and math.isclose(arm.mean(shared), one.of_arm, abs_tol=1e-9)
            and math.isclose(reference.mean(shared), one.of_reference, abs_tol=1e-9)
        ):
            return {key: (arm.values[key], reference.values[key]) for key in shared}
    return None


def _means(values: Sequence[Values]) -> Floats:
    """Of each problem the means of arm and reference, over the seeds that have it."""
    found: dict[ProblemKey, list[tuple[float, float]]] = {}
    for key, pair in (item for one in values for item in one.items()):
        found.setdefault(key, []).append(pair)
    return np.array([np.mean(pairs, axis=0) for pairs in found.values()], dtype=np.float64)


def _claims(found: SeedStudy) -> Iterator[str]:
    """The gain over all seeds with both intervals; no claim if nothing was solved."""
    heads = [*found.differences.values()]
    number = f"{len(heads)} seed{'s' if len(heads) > 1 else ''}"
    if all(one.of_arm == one.of_reference == 0 for one in heads):
        yield "Nothing was solved, so nothing is claimed."
        return
    named = {f"{one.arm} minus {one.reference}, {measured(one)}" for one in heads}
    compared = named.pop() if len(named) == 1 else "the headline difference"
    yield f"{found.evaluations[0].study.system}, {number}: {compared}: {points(found.mean)} points in the mean"
    level = f"{100 * found.params.confidence_level:g} % interval"
    if (over := found.over_problems) is None:
        yield "There is no interval over problems: the values that were compared are not stored for every seed."
    else:
        yield (
            f"Over {found.num_problems} distinct problems, with these trainings: {difference(over.interval)}, "
            f"{level}, {p_equation(over.p_value)}."
        )
    if found.over_seeds is None:
        yield "One seed does not show how much trainings vary."
    else:
        yield f"Over {number}: {difference(found.over_seeds)}, {level} by Student's t."


def _not_held_out(found: SeedStudy) -> Iterator[str]:
    for study in (one.study for one in found.evaluations if one.study.seed in found.differences):
        for sentence in not_held_out(found.differences[study.seed], study):
            yield f"Seed {study.seed}: {sentence}"


def write_seeds(folder: pathlib.Path, found: SeedStudy) -> Study:
    """Write seeds.json and report.html: the claims, and the difference of each seed."""
    first = found.evaluations[0].study
    study = bare_study(
        first.system,
        (*_claims(found), *_not_held_out(found)),
        found.params,
        seed=min(found.differences),
        arms=first.arms,
        differences=tuple(
            replace(one, arm=f"seed {seed}: {one.arm}") for seed, one in found.differences.items()
        ),
    )
    write_json(folder / f"{SEEDS_NAME}.json", found.row())
    write_page(folder / REPORT_NAME, study, Page(title=f"{first.system} by seed"))
    return study
