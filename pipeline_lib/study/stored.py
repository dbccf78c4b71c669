"""Finished evaluations, read by problem: the ids of two evaluations may differ for one problem."""

import pathlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from statistics import fmean
from typing import Any

from pipeline_lib.store import shards
from pipeline_lib.store.files import read_json
from pipeline_lib.study.attempts import Cost
from pipeline_lib.study.study import (
    METRICS_NAME,
    PROBLEMS_NAME,
    VALUES_NAME,
    Study,
    is_study,
    read_study,
)

ProblemKey = tuple[str, str, str]
"""Kind, question and gold."""
_FIGURES = tuple(field.name for field in fields(Cost))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSeries:
    """The values of one measure by problem; of a problem with two ids the means."""

    arm: str
    set: str
    measure: str
    subset: str
    upper_bound: bool
    values: Mapping[ProblemKey, float]
    costs: Mapping[ProblemKey, Cost]
    """All zero where the series has no costs."""
    seen: frozenset[ProblemKey]
    """Problems that the training of the arm saw."""
    counts: Mapping[ProblemKey, int]
    """Ids of each problem."""

    def mean(self, problems: Collection[ProblemKey]) -> float:
        """The mean value, in which a problem counts as often as it has ids."""
        total = sum(self.counts[key] for key in problems)
        return sum(self.values[key] * self.counts[key] for key in problems) / total


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A study with its series."""

    folder: pathlib.Path
    study: Study
    series: tuple[StoredSeries, ...]


def evaluation_folders(workspace: pathlib.Path) -> list[pathlib.Path]:
    """Every evaluation below reports/ of a workspace that this version wrote, sorted.

    SYSTEM-PART is left out, as apr-valid, which chooses what apr evaluates.
    """
    folders = [path.parent for path in sorted(workspace.glob(f"reports/*/{METRICS_NAME}"))]
    found = {folder: read_json(folder / METRICS_NAME) for folder in folders}
    return [
        folder
        for folder, content in found.items()
        if is_study(content) and not folder.name.startswith(f"{content['system']}-")
    ]


def read_evaluation(folder: pathlib.Path) -> Evaluation:
    """Read what `write_study` wrote.

    Raises:
        BadInputError: there is nothing, or another version wrote it.
        CorruptArtifactError: a table differs from its manifest.
    """
    study = read_study(folder / METRICS_NAME)
    keys: dict[tuple[str, str], ProblemKey] = {
        (row["set"], row["id"]): (row["kind"], row["question"], row["gold"])
        for row in shards.iter_table(folder / PROBLEMS_NAME)
    }
    rows: dict[tuple[str, ...], dict[ProblemKey, list[dict[str, Any]]]] = {}
    for row in shards.iter_table(folder / VALUES_NAME):
        key = keys.get((row["set"], row["problem_id"]))
        if key is not None:
            name = (row["arm"], row["set"], row["measure"], row["subset"])
            rows.setdefault(name, {}).setdefault(key, []).append(row)
    return Evaluation(
        folder=folder,
        study=study,
        series=tuple(_series(name, found) for name, found in rows.items()),
    )


def _series(name: tuple[str, ...], rows: Mapping[ProblemKey, list[dict[str, Any]]]) -> StoredSeries:
    arm, set_name, measure, subset = name
    return StoredSeries(
        arm=arm,
        set=set_name,
        measure=measure,
        subset=subset,
        upper_bound=any(row["upper_bound"] for own in rows.values() for row in own),
        values={key: fmean(row["value"] for row in own) for key, own in rows.items()},
        costs={
            key: Cost.mean([Cost(**{name: row[name] for name in _FIGURES}) for row in own])
            for key, own in rows.items()
        },
        seen=frozenset(key for key, own in rows.items() if any(row["seen"] for row in own)),
        counts={key: len(own) for key, own in rows.items()},
    )
