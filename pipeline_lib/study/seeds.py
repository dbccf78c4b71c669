"""One system with several seeds: the headline difference of each, their mean, intervals over problems and over seeds."""

import importlib.metadata
import itertools
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.seeding import child_seed
from pipeline_lib.store.files import write_json
from pipeline_lib.study.headline import measured
from pipeline_lib.study.pages.page import REPORT_NAME, Page, write_page
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import count, difference, p_equation, p_value, points
from pipeline_lib.study.statistics.intervals import t_interval
from pipeline_lib.study.statistics.paired import PairedDifference, paired_difference
from pipeline_lib.study.stored import Evaluation, ProblemKey, StoredSeries
from pipeline_lib.study.study import Difference, Study

SEEDS_NAME = "seeds"

Values = Mapping[ProblemKey, tuple[float, float]]
"""Of the arm and of its reference, by problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedStudy:
    """The headline differences of one system by seed, and what they give together."""

    system: str
    level: float
    """Confidence of the intervals."""
    differences: Mapping[int, Difference]
    """By seed."""
    folders: Mapping[int, str]
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
        over = self.over_problems
        return {
            "system": self.system,
            "level": self.level,
            "seeds": [
                {"seed": seed, "folder": self.folders[seed], **_named(one), **one.interval.row()}
                | {"p": one.p, "n": one.n}
                for seed, one in self.differences.items()
            ],
            "mean": self.mean,
            "over_problems": over
            and {**over.interval.row(), "p": over.p_value, "n": self.num_problems},
            "over_seeds": self.over_seeds and {**self.over_seeds.row(), "n": len(self.differences)},
        }


def _named(one: Difference) -> dict[str, str]:
    return {name: getattr(one, name) for name in ("arm", "reference", "set", "measure", "subset")}


def study_seeds(evaluations: Sequence[Evaluation], params: EvaluateParams) -> SeedStudy | None:
    """Put the seeds of one system together; None if none of them has a headline difference.

    Args:
        evaluations: one a seed.
        params: resamples and confidence_level.
    """
    heads = {one.study.seed: (one, one.study.headline) for one in evaluations}
    found = {seed: (one, head) for seed, (one, head) in heads.items() if head is not None}
    if not found:
        return None
    gains = [head.value for _, head in found.values()]
    values = [compared_values(one, head) for one, head in found.values()]
    stored = [one for one in values if one is not None]
    means = _means(stored) if len(stored) == len(values) else {}
    return SeedStudy(
        system=evaluations[0].study.system,
        level=params.confidence_level,
        differences={seed: head for seed, (_, head) in found.items()},
        folders={seed: str(one.folder) for seed, (one, _) in found.items()},
        mean=float(np.mean(gains)),
        over_problems=_over_problems(means, params, seed=min(found)) if means else None,
        num_problems=len(means),
        over_seeds=t_interval(gains, level=params.confidence_level),
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


def _means(values: Sequence[Values]) -> Values:
    """Of each problem, over the seeds that have it."""
    found: dict[ProblemKey, list[tuple[float, float]]] = {}
    for key, pair in (item for one in values for item in one.items()):
        found.setdefault(key, []).append(pair)
    means = {key: np.mean(pairs, axis=0) for key, pairs in found.items()}
    return {key: (float(arm), float(reference)) for key, (arm, reference) in means.items()}


def _over_problems(means: Values, params: EvaluateParams, *, seed: int) -> PairedDifference:
    pairs_PA = np.array([*means.values()], dtype=np.float64)
    drawn = child_seed(seed, "seeds", "problems")
    return paired_difference(pairs_PA[:, 1], pairs_PA[:, 0], params, seed=drawn)


def seed_claims(found: SeedStudy) -> Iterator[str]:
    """What was gained over all seeds, with both intervals; nothing where nothing was solved."""
    heads = list(found.differences.values())
    first, number = heads[0], f"{len(heads)} seed{'s' if len(heads) > 1 else ''}"
    if all(one.of_arm == one.of_reference == 0 for one in heads):
        yield "Nothing was solved, so nothing is claimed."
        return
    compared = (
        f"{first.arm} minus {first.reference}, {measured(first)}"
        if len({str(_named(one)) for one in heads}) == 1
        else "the headline difference"
    )
    yield f"{found.system}, {number}: {compared}: {points(found.mean)} points in the mean"
    level = f"{100 * found.level:g} % interval"
    if (over := found.over_problems) is None:
        yield "There is no interval over problems: the values that were compared are not stored for every seed."
    else:
        yield (
            f"Over {found.num_problems} distinct problems, the trainings as they are: {difference(over.interval)}, "
            f"{level}, {p_equation(over.p_value)}."
        )
    if found.over_seeds is None:
        yield "One seed does not show how much trainings vary."
    else:
        yield (
            f"Over {number}, the problems as they are: {difference(found.over_seeds)}, {level} by Student's t."
        )


def seed_table(found: SeedStudy) -> Table:
    """The difference of each seed."""
    return Table(
        caption=f"Differences in points by seed, with {100 * found.level:g} % intervals over problems",
        columns=("seed", "arm", "minus", "measure", "difference", "p", "problems"),
        rows=tuple(
            (
                str(seed),
                one.arm,
                one.reference,
                measured(one),
                difference(one.interval),
                p_value(one.p),
                count(one.n),
            )
            for seed, one in found.differences.items()
        ),
    )


def write_seeds(folder: pathlib.Path, found: SeedStudy, evaluations: Sequence[Evaluation]) -> None:
    """Write seeds.json and report.html."""
    write_json(folder / f"{SEEDS_NAME}.json", found.row())
    study = Study(
        system=found.system,
        seed=min(found.differences),
        level=found.level,
        provenance={"version": importlib.metadata.version("reasonloop")},
        arms=evaluations[0].study.arms,
        points=(),
        differences=(),
        left_out=(),
        claims=tuple(seed_claims(found)),
    )
    page = Page(title=f"{found.system} by seed", tables=[seed_table(found)])
    write_page(folder / REPORT_NAME, study, page)
