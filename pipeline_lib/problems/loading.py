"""The data sets that can be loaded: how each is laid out, and what makes a problem of its rows.

Countdown is not among them: it is generated (see `countdown`), not loaded.
"""

import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline_lib.errors import BadInputError
from pipeline_lib.problems.arc_grids import arc_problems
from pipeline_lib.problems.math_word import contest_problem, gsm8k_problem
from pipeline_lib.problems.python_code import MBPP_TASKS, humaneval_problem, mbpp_problem
from pipeline_lib.problems.raw_rows import RawRow, folder_rows, hub_rows
from pipeline_lib.records import Problem

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


class _RowParser(Protocol):
    def __call__(self, row: RawRow, *, id_prefix: str, source: str) -> Problem: ...


class _Parser(Protocol):
    def __call__(self, row: RawRow, *, id_prefix: str, source: str) -> Sequence[Problem]: ...


def _one(parse: _RowParser) -> _Parser:
    def parse_row(row: RawRow, *, id_prefix: str, source: str) -> Sequence[Problem]:
        return [parse(row, id_prefix=id_prefix, source=source)]

    return parse_row


def _every_row(_row: RawRow, _split: str) -> bool:
    return True


def _mbpp_row_in(row: RawRow, split: str) -> bool:
    return row.whole("task_id") in MBPP_TASKS[split]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One data set in its publisher's format."""

    parse: _Parser
    splits: tuple[str, ...]
    patterns: tuple[str, ...]
    """Where a split's files are in a folder; the first pattern that matches anything counts."""
    hub_config: str | None = None
    is_in: Callable[[RawRow, str], bool] = _every_row
    """Which rows belong to a split where one file holds several."""
    published_splits: Mapping[str, str] = field(default_factory=dict)
    """What the publisher calls a split, where that is not its name here."""
    many_editions: bool = False
    """Whether sources of this name hold different problems (AIME by year), so they are told apart
    by the name of their folder."""

    def published(self, split: str) -> str:
        """The publisher's name of a split."""
        return self.published_splits.get(split, split)


_BY_SPLIT = ("{split}.jsonl", "{split}.jsonl.gz", "{split}-*.parquet", "data/{split}-*.parquet")

DATASETS: Mapping[str, DataSet] = {
    "gsm8k": DataSet(
        parse=_one(gsm8k_problem),
        splits=("train", "test"),
        patterns=(*_BY_SPLIT, "main/{split}-*.parquet"),
        hub_config="main",
    ),
    "math": DataSet(parse=_one(contest_problem), splits=("train", "test"), patterns=_BY_SPLIT),
    "aime": DataSet(
        parse=_one(contest_problem), splits=("test",), patterns=_BY_SPLIT, many_editions=True
    ),
    "hmmt": DataSet(
        parse=_one(contest_problem), splits=("test",), patterns=_BY_SPLIT, many_editions=True
    ),
    "humaneval": DataSet(
        parse=_one(humaneval_problem),
        splits=("test",),
        patterns=(
            "HumanEval.jsonl",
            "HumanEval.jsonl.gz",
            *_BY_SPLIT,
            "openai_humaneval/{split}-*.parquet",
        ),
    ),
    "mbpp": DataSet(
        parse=_one(mbpp_problem),
        splits=tuple(MBPP_TASKS),
        patterns=("mbpp.jsonl", *_BY_SPLIT, "full/{split}-*.parquet"),
        hub_config="full",
        is_in=_mbpp_row_in,
    ),
    "arc": DataSet(
        parse=arc_problems,
        splits=("train", "test"),
        patterns=("{split}/*.json",),
        published_splits={"train": "training", "test": "evaluation"},
        many_editions=True,
    ),
    "concept-arc": DataSet(
        parse=arc_problems, splits=("test",), patterns=("corpus/*/*.json", "*.json")
    ),
}


KNOWN_REPEATS = frozenset({"40853293/0"})
"""Train problems that their publisher repeats in the test split: ARC-AGI-1 has this as 070dd51e/0."""


def load(name: str, source: str, split: str) -> list[Problem]:
    """The problems of one official split; see :func:`load_splits`.

    Raises:
        BadInputError: also when there is no such split in ``source``.
    """
    splits = load_splits(name, source)
    if split not in splits:
        raise BadInputError(f"{source}: {name} has no split {split!r}, only {', '.join(splits)}")
    return splits[split]


def load_splits(name: str, source: str) -> dict[str, list[Problem]]:
    """The problems of every official split that ``source`` holds, in the order of its files.

    Args:
        name: a key of ``DATASETS``.
        source: a folder in the publisher's format or in that of a hub's parquet export, or a hub
            id such as ``openai/gsm8k``.

    Raises:
        BadInputError: an unknown name, nothing to read, a row that cannot be used, an empty
            split, an id that stands twice. One line names file, line and key.
    """
    if name not in DATASETS:
        raise BadInputError(f"data set {name!r} is unknown; there are {', '.join(DATASETS)}")
    data_set = DATASETS[name]
    label = pathlib.Path(source).resolve().name if data_set.many_editions else name
    loaded: dict[str, list[Problem]] = {}
    places: dict[str, str] = {}
    for split, rows in _raw_splits(name, data_set, source).items():
        for row in rows:
            problems = data_set.parse(row, id_prefix=f"{label}-{split}", source=label)
            for problem in problems:
                _refuse_repeated_id(problem.id, row, places)
            loaded.setdefault(split, []).extend(problems)
    return loaded


def load_evaluation_set(name: str, source: str) -> list[Problem]:
    """The test split of ``source``, or all of its problems where it has none; see `load_splits`."""
    splits = load_splits(name, source)
    return splits.get("test") or [p for problems in splits.values() for p in problems]


def _refuse_repeated_id(problem_id: str, row: RawRow, places: dict[str, str]) -> None:
    earlier = places.setdefault(problem_id, row.where)
    if earlier != row.where:
        raise BadInputError(
            f"{row.where}: the id {problem_id!r} stands at {earlier} already; remove one of them"
        )


def _raw_splits(name: str, data_set: DataSet, source: str) -> dict[str, list[RawRow]]:
    folder = pathlib.Path(source).expanduser()
    if folder.is_dir():
        return _folder_splits(name, data_set, folder)
    if not _HUB_ID.fullmatch(source):
        raise BadInputError(
            f"prepare.source={source}: no such folder, and not a hub id (owner/name); "
            f"give the folder that holds {name}"
        )
    return _hub_splits(name, data_set, source)


def _folder_splits(name: str, data_set: DataSet, folder: pathlib.Path) -> dict[str, list[RawRow]]:
    found = {}
    for split in data_set.splits:
        name_there = data_set.published(split)
        rows = folder_rows(
            folder, [pattern.format(split=name_there) for pattern in data_set.patterns]
        )
        if rows == []:
            raise BadInputError(f"{folder}: the {split} split of {name} is empty; fetch it again")
        found[split] = [row for row in rows or () if data_set.is_in(row, split)]
    if not any(found.values()):
        looked_for = ", ".join(pattern.format(split="SPLIT") for pattern in data_set.patterns)
        raise BadInputError(
            f"{folder}: no problems of {name}; looked for {looked_for} "
            f"with SPLIT one of {', '.join(map(data_set.published, data_set.splits))}"
        )
    return {split: rows for split, rows in found.items() if rows}


def _hub_splits(name: str, data_set: DataSet, hub_id: str) -> dict[str, list[RawRow]]:
    splits = hub_rows(hub_id, config=data_set.hub_config)
    if data_set.splits == ("test",) and len(splits) == 1:
        # A benchmark without a train set is often uploaded as a lone "train" split.
        splits = {"test": next(iter(splits.values()))}
    names = {split: data_set.published(split) for split in data_set.splits}
    found = {split: splits[there] for split, there in names.items() if splits.get(there)}
    if not found:
        raise BadInputError(
            f"{hub_id}: it has the splits {', '.join(splits)}; "
            f"{name} needs one of {', '.join(names.values())}"
        )
    return found
