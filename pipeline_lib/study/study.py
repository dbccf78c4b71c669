"""A study: what was measured of every arm, and the differences between arms, of one evaluation of any system.

A system turns its attempts into series, the values of one measure by problem, and names the contrasts. Intervals,
tests, files and pages are the same for all.
"""

import importlib.metadata
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.seeding import child_seed
from pipeline_lib.store import shards
from pipeline_lib.store.files import read_json, write_json
from pipeline_lib.study.attempts import MAIN, Cost, Posed, problem_rows
from pipeline_lib.study.names import ACCURACIES
from pipeline_lib.study.statistics.intervals import (
    DifferenceFinding,
    PairedDifference,
    paired_difference,
    score_interval,
    wilson_interval,
)

METRICS_NAME = "metrics.json"
SUMMARY_NAME = "summary.json"
VALUES_NAME = "values"
PROBLEMS_NAME = "problems"
SCHEMA = 2
ALL = "all"

Setting = str | float | int
Name = str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A policy or rule that is compared: a base name of `names.ARMS`, and its settings."""

    base: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    upper_bound: bool = False
    """It needs the label."""
    trained_tokens: int | None = None
    seen: frozenset[str] = frozenset()
    """Ids of evaluated problems that its training saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The values of one measure by problem id, in the order in which they are resampled."""

    arm: Arm
    measure: str
    values: Mapping[str, float]
    """Each in [0, 1]; a problem without a value is left out."""
    costs: Mapping[str, Cost] = field(default_factory=dict)
    """Cost of each value; empty if the measure is not one of attempts."""
    seed_names: tuple[Name, ...] = ()
    """Names of the seed of its interval."""
    subset: str = ALL
    set: str = MAIN
    is_binomial: bool = False
    """One attempt per problem that is right or wrong: Wilson's interval in place of the bootstrap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """``candidate`` minus ``reference``, on the problems of both."""

    candidate: Series
    reference: Series
    seed_names: tuple[Name, ...]
    inner_names: tuple[Name, ...] = ()
    """Names of a seed below the one of ``seed_names``."""
    sorts: bool = False
    """Resample in the order of the ids, in place of the candidate's."""
    family: str | None = None
    """Contrasts of one family are corrected by Holm's method."""
    subset: str | None = None
    """None: the subset of the candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The mean of a measure over problems."""

    arm: str
    set: str
    measure: str
    subset: str
    value: float
    low: float
    high: float
    n: int
    cost: Cost | None

    @property
    def interval(self) -> Interval:
        """The value with its bounds."""
        return Interval(value=self.value, low=self.low, high=self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The mean difference between two arms on the problems of both."""

    arm: str
    reference: str
    set: str
    measure: str
    subset: str
    value: float
    low: float
    high: float
    p: float
    p_adjusted: float | None
    n: int
    of_arm: float
    """Mean of the arm on these problems."""
    of_reference: float
    finding: DifferenceFinding

    @property
    def interval(self) -> Interval:
        """The value with its bounds."""
        return Interval(value=self.value, low=self.low, high=self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedArm:
    """An arm as in the file."""

    name: str
    """Its base name, then the settings that vary."""
    base: str
    settings: Mapping[str, Setting]
    upper_bound: bool = False
    trained_tokens: int | None = None
    num_seen: int = 0
    """Evaluated problems that its training saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Problems, or attempts, that no figure counts."""

    reason: str
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The content of metrics.json. The first difference is the one that the run is about."""

    system: str
    seed: int
    level: float
    """Confidence of all intervals."""
    provenance: Mapping[str, str | None]
    arms: tuple[NamedArm, ...]
    points: tuple[Point, ...]
    differences: tuple[Difference, ...]
    left_out: tuple[LeftOut, ...]
    claims: tuple[str, ...] = ()
    """Sentences; the first is the title of the page."""
    compute: Mapping[str, Any] = field(default_factory=dict)
    """Figures of the system about the work itself; null where they are unknown."""

    def point(self, arm: str, measure: str, *, subset: str = ALL, set_name: str = MAIN) -> Point:
        """One point; KeyError: there is none."""
        wanted = (arm, measure, subset, set_name)
        for one in self.points:
            if (one.arm, one.measure, one.subset, one.set) == wanted:
                return one
        raise KeyError(wanted)

    @property
    def headline(self) -> Difference | None:
        """The difference that the run is about; None if it has no control."""
        return self.differences[0] if self.differences else None

    def with_claims(self, claims: Iterable[str]) -> "Study":
        """The same with sentences."""
        return replace(self, claims=tuple(claims))


def make_study(  # noqa: PLR0913 - the parts of a study
    system: str,
    series: Sequence[Series],
    contrasts: Sequence[Contrast],
    *,
    evaluate: EvaluateParams,
    seed: int,
    provenance: Mapping[str, str | None],
    left_out: Mapping[str, int] | None = None,
    compute: Mapping[str, Any] | None = None,
) -> Study:
    """Estimate every point and difference. A series without values, and a contrast without a shared problem, is none.

    Args:
        system: its name.
        series: in the order of the file.
        contrasts: the one that the run is about first. An arm of contrasts alone, as a reference that is chosen among
            other arms, has a base name of its own.
        evaluate: resamples and confidence_level.
        seed: root seed of the intervals.
        provenance: version, commit, digest of the params, engine.
        left_out: problems by the reason why they are in no figure.
        compute: see `Study.compute`.
    """
    sides = [side for one in contrasts for side in (one.candidate, one.reference)]
    arms = [one.arm for one in (*series, *sides)]
    names = arm_names(arms)
    found = [_difference(one, names, evaluate, seed=seed) for one in contrasts]
    adjusted = _holm(contrasts, found)
    return bare_study(
        system,
        (),
        evaluate,
        seed=seed,
        provenance=provenance,
        arms=tuple(
            NamedArm(
                name=names[key],
                base=arm.base,
                settings=dict(arm.settings),
                upper_bound=arm.upper_bound,
                trained_tokens=arm.trained_tokens,
                num_seen=len(arm.seen),
            )
            for key, arm in {_key(arm): arm for arm in arms}.items()
        ),
        points=tuple(_point(one, names, evaluate, seed=seed) for one in series if one.values),
        differences=tuple(one for one in adjusted if one is not None),
        left_out=tuple(
            LeftOut(reason=reason, n=count) for reason, count in (left_out or {}).items() if count
        ),
        compute=compute or {},
    )


def bare_study(
    system: str, claims: Iterable[str], evaluate: EvaluateParams, *, seed: int, **parts: Any
) -> Study:
    """A study with these ``parts`` alone: without points it is about other studies, or shows examples."""
    empty: dict[str, Any] = dict.fromkeys(("arms", "points", "differences", "left_out"), ())
    provenance = {"version": importlib.metadata.version("reasonloop")}
    return Study(
        system=system,
        seed=seed,
        level=evaluate.confidence_level,
        claims=tuple(claims),
        **(empty | {"provenance": provenance} | parts),
    )


def accuracies(study: Study) -> dict[str, Point]:
    """One accuracy of each arm that has one with costs."""
    found: dict[str, Point] = {}
    for measure in ACCURACIES:
        for one in study.points:
            if (one.subset, one.measure) == (ALL, measure) and one.cost is not None:
                found.setdefault(one.arm, one)
    return found


ArmKey = tuple[str, tuple[tuple[str, Setting], ...]]


def _key(arm: Arm) -> ArmKey:
    return arm.base, tuple(sorted(arm.settings.items()))


def arm_names(arms: Sequence[Arm]) -> dict[ArmKey, str]:
    """A unique name for each distinct arm: its base, then the settings that vary among the arms of this base."""
    keys = list(dict.fromkeys(map(_key, arms)))
    names = {}
    for base, settings in keys:
        alike = [dict(other) for name, other in keys if name == base]
        varying = [
            f"{setting}={_short(value)}"
            for setting, value in settings
            if any(other.get(setting) != value for other in alike)
        ]
        names[base, settings] = " ".join([base, *varying])
    return names


def arm_name(study: Study, base: str, **settings: Setting) -> str | None:
    """Name of the first arm of a study with this base and these settings; None if there is none."""
    for one in study.arms:
        if one.base == base and settings.items() <= one.settings.items():
            return one.name
    return None


def _short(value: Setting) -> str:
    text = value if isinstance(value, str) else f"{value:g}"
    return text.removeprefix("0") if text.startswith("0.") else text


def _point(
    series: Series, names: Mapping[ArmKey, str], evaluate: EvaluateParams, *, seed: int
) -> Point:
    values_P = np.array([*series.values.values()], dtype=np.float64)
    if series.is_binomial:
        found = wilson_interval(int(values_P.sum()), len(values_P), evaluate)
    else:
        found = score_interval(values_P, evaluate, seed=child_seed(seed, *series.seed_names))
    costs = [series.costs[name] for name in series.values if name in series.costs]
    return Point(
        arm=names[_key(series.arm)],
        set=series.set,
        measure=series.measure,
        subset=series.subset,
        **found.row(),
        n=len(values_P),
        cost=Cost.mean(costs) if costs else None,
    )


def paired(contrast: Contrast, evaluate: EvaluateParams, *, seed: int) -> PairedDifference | None:
    """The difference of a contrast on the problems of both series; None without any."""
    reference, candidate = contrast.reference.values, contrast.candidate.values
    shared = [name for name in candidate if name in reference]
    if not shared:
        return None
    order = sorted(shared) if contrast.sorts else shared
    own = child_seed(seed, *contrast.seed_names)
    return paired_difference(
        np.array([reference[name] for name in order], dtype=np.float64),
        np.array([candidate[name] for name in order], dtype=np.float64),
        evaluate,
        seed=child_seed(own, *contrast.inner_names) if contrast.inner_names else own,
    )


def _difference(
    contrast: Contrast, names: Mapping[ArmKey, str], evaluate: EvaluateParams, *, seed: int
) -> Difference | None:
    found = paired(contrast, evaluate, seed=seed)
    if found is None:
        return None
    candidate, reference = contrast.candidate, contrast.reference
    return Difference(
        arm=names[_key(candidate.arm)],
        reference=names[_key(reference.arm)],
        set=candidate.set,
        measure=candidate.measure,
        subset=contrast.subset or candidate.subset,
        **found.interval.row(),
        p=found.p_value,
        p_adjusted=None,
        n=len(candidate.values.keys() & reference.values.keys()),
        of_arm=found.trained,
        of_reference=found.base,
        finding=found.finding,
    )


def _holm(
    contrasts: Sequence[Contrast], found: Sequence[Difference | None]
) -> list[Difference | None]:
    """Each difference of a family with its adjusted p-value."""
    result = [*found]
    for family in {one.family for one in contrasts} - {None}:
        own = {
            place: one
            for place, one in enumerate(found)
            if contrasts[place].family == family and one is not None
        }
        adjusted = holm([one.p for one in own.values()])
        for (place, one), p in zip(own.items(), adjusted, strict=True):
            result[place] = replace(one, p_adjusted=p)
    return result


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of several tests, in their order.

    Source: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
    """
    adjusted = [*p_values]
    highest = 0.0
    for rank, place in enumerate(np.argsort(p_values, kind="stable")):
        highest = max(highest, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = highest
    return adjusted


_STUDY = TypeAdapter(Study)


def study_row(study: Study) -> dict[str, Any]:
    """The content of metrics.json."""
    row: dict[str, Any] = _STUDY.dump_python(study, mode="json")
    return {"schema": SCHEMA, **row}


def is_study(content: Any) -> bool:
    """True if the content of a metrics.json is of this schema."""
    return isinstance(content, dict) and content.get("schema") == SCHEMA


def read_study(path: pathlib.Path) -> Study:
    """Read a metrics.json; BadInputError: there is none, another version wrote it, or it is damaged."""
    content = read_json(path)
    if not is_study(content):
        raise BadInputError(f"{path}: not of schema {SCHEMA}; evaluate again with this version")
    with errors_at(path, ValidationError, fault="damaged", remedy="evaluate again"):
        return _STUDY.validate_python({name: content[name] for name in content if name != "schema"})


def summary_row(study: Study) -> dict[str, Any]:
    """At most 12 numbers for `dvc metrics` and `dvc exp`, which compare flat files alone."""
    found: dict[str, Any] = {"seed": study.seed}
    if (one := study.headline) is not None:
        found |= {
            "gain": one.value,
            "gain_low": one.low,
            "gain_high": one.high,
            "p": one.p,
            "arm": one.of_arm,
            "reference": one.of_reference,
            "problems": one.n,
        }
    return found


def write_study(
    folder: pathlib.Path,
    study: Study,
    series: Sequence[Series],
    problems: Iterable[Posed],
    *,
    further: Mapping[str, Iterable[Posed]] | None = None,
) -> None:
    """Write metrics.json, summary.json, and as tables the values of each series and the problems.

    The tables are what studies are joined by: see `frontier`. ``further`` are the problems of further sets by name.
    """
    names = arm_names([one.arm for one in series])
    rows = (
        {
            "arm": names[_key(one.arm)],
            "base": one.arm.base,
            "upper_bound": one.arm.upper_bound,
            "set": one.set,
            "measure": one.measure,
            "subset": one.subset,
            "problem_id": name,
            "value": value,
            "seen": name in one.arm.seen,
            **asdict(one.costs.get(name, _FREE)),
        }
        for one in series
        for name, value in one.values.items()
    )
    shards.write_table(folder / VALUES_NAME, rows, kind="study-values", key=VALUES_NAME)
    shards.write_table(
        folder / PROBLEMS_NAME,
        [
            row
            for name, posed in {MAIN: problems, **(further or {})}.items()
            for row in problem_rows(posed, set_name=name)
        ],
        kind="study-problems",
        key=PROBLEMS_NAME,
    )
    write_json(folder / SUMMARY_NAME, summary_row(study))
    write_json(folder / METRICS_NAME, study_row(study))


_FREE = Cost()


ValueKey = tuple[str, str, str]
"""Arm, measure and subset."""


def read_values(folder: pathlib.Path, *, set_name: str = MAIN) -> dict[ValueKey, dict[str, float]]:
    """The values by problem id of each series that :func:`write_study` wrote.

    Raises:
        CorruptArtifactError: the table differs from its manifest.
    """
    found: dict[ValueKey, dict[str, float]] = {}
    for row in shards.iter_table(folder / VALUES_NAME):
        if row["set"] == set_name:
            key = (row["arm"], row["measure"], row["subset"])
            found.setdefault(key, {})[row["problem_id"]] = row["value"]
    return found
