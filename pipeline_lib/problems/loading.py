"""All data sets by the value of ``prepare.dataset``, and their loading, split by split, from a folder or a hub.

A new data set is a parser of its rows and a line in ``DATA_SETS``.
"""

import pathlib
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from pipeline_lib.errors import BadInputError, Faults, suggestion
from pipeline_lib.params.paths import LINES, LinesParams
from pipeline_lib.problems import countdown, word_problems
from pipeline_lib.problems.arc_grids import ARC, CONCEPT_ARC
from pipeline_lib.problems.data_set import (
    DataSet,
    RawRow,
    file_rows,
    folder_rows,
    hub_rows,
    is_saved,
    saved_rows,
)
from pipeline_lib.problems.lines import lines_data_set
from pipeline_lib.problems.own_task import task_of
from pipeline_lib.problems.row_parsers import (
    GSM8K,
    HUMANEVAL,
    MATH,
    MATH_500,
    MBPP,
    YEARLY_CONTEST,
    YEARS,
)
from pipeline_lib.records import Problem
from pipeline_lib.terminal_text import one_line

GENERATED = (countdown.NAME, word_problems.NAME)
"""The data sets that are generated; all others are loaded."""

DATA_SETS: Mapping[str, DataSet] = {
    "gsm8k": GSM8K,
    "math": MATH,
    "math500": MATH_500,
    "aime": YEARLY_CONTEST,
    "hmmt": YEARLY_CONTEST,
    **YEARS,
    "humaneval": HUMANEVAL,
    "mbpp": MBPP,
    "arc": ARC,
    "concept-arc": CONCEPT_ARC,
    LINES: lines_data_set(LinesParams()),
}

_SHOWN_CHARACTERS = 60
_HUB_ID = re.compile(r"([\w-][\w.-]*/[\w-][\w.-]*)(?::([\w.-]+))?")
"""Owner and name, and the config of one that has several."""


def find_data_set(name: str) -> DataSet:
    """The loaded data set of that name; BadInputError with the names if there is none."""
    check_data_set(name, DATA_SETS)
    return DATA_SETS[name]


ALL = (*GENERATED, *DATA_SETS)


def check_data_set(name: str, known: Collection[str] = ALL) -> None:
    """Raise BadInputError with the names if ``name`` is none of ``known``, by default all of them and every task."""
    if name not in known and (known != ALL or task_of(name) is None):
        shown = one_line(repr(name), most=_SHOWN_CHARACTERS)
        close = suggestion(name, known) or ";"
        raise BadInputError(f"data set {shown} is unknown{close} there are {', '.join(known)}")


def source_of(name: str, source: str | None, *, key: str = "prepare.source") -> str:
    """``source``, or else where the data set is published; BadInputError without either, about ``key``."""
    found = source or find_data_set(name).hub_id
    if found is None:
        raise BadInputError(
            f"{key} is not set; {name} needs a folder in its original format, a file or a hub id"
        )
    return found


def load_splits(
    name: str, source: str, form: LinesParams | None = None
) -> dict[str, list[Problem]]:
    """The problems of every official split that ``source`` holds, in the order of its files.

    ``name`` is a key of ``DATA_SETS``; ``source`` is a folder in the publisher's format, in a hub's parquet export or
    saved by ``datasets``, a file, or a hub id such as ``openai/gsm8k``, which may end in ``:CONFIG``. A single split is
    the first of the data set, whatever its name is. ``form`` says how rows of ``lines`` are read.

    Raises:
        BadInputError: an unknown name, no files, unusable rows, an empty split, or a repeated id;
            the message names file, line and key of up to 20 rows.
    """
    data_set = lines_data_set(form) if form and name == LINES else find_data_set(name)
    label = pathlib.Path(source).resolve().name if data_set.many_editions else name
    loaded: dict[str, list[Problem]] = {}
    known: dict[str, tuple[str, Problem]] = {}
    faults = Faults()
    for split, rows in _raw_splits(name, data_set, source).items():
        data_set.check(rows)
        for row in rows:
            with faults.kept():
                parsed = data_set.parse(row, id_prefix=f"{label}-{split}", source=label)
                for problem in [parsed] if isinstance(parsed, Problem) else parsed:
                    placed = replace(problem, where=row.where)
                    _check(placed, row, known.setdefault(problem.id, (split, placed)), split)
                    loaded.setdefault(split, []).append(placed)
    faults.raise_any()
    return loaded


def load_evaluation_set(name: str, source: str, form: LinesParams | None = None) -> list[Problem]:
    """The test split of ``source``, or all of its problems where it has none; see `load_splits`."""
    splits = load_splits(name, source, form)
    found = splits.get("test") or [p for problems in splits.values() for p in problems]
    return [*{problem.id: problem for problem in found}.values()]


def _check(problem: Problem, row: RawRow, first: tuple[str, Problem], split: str) -> None:
    """``first`` is the split and the problem that has the id. The same one again in its split is a repeat."""
    if not problem.question.strip():
        raise row.error("question", "it is empty")
    there, other = first
    repeats = there == split and (other.question, other.gold) == (problem.question, problem.gold)
    if other.where != row.where and not repeats:
        raise BadInputError(
            f"{row.where}: the problem {problem.id!r} is also at {other.where}; remove one of them"
        )


def _raw_splits(name: str, data_set: DataSet, source: str) -> dict[str, list[RawRow]]:
    path = pathlib.Path(source).expanduser()
    if path.is_file():
        return _named_splits(name, data_set, {"": file_rows([path])}, source)
    if is_saved(path):
        return _named_splits(name, data_set, saved_rows(path), source)
    if path.is_dir():
        return _folder_splits(name, data_set, path)
    hub_id = _HUB_ID.fullmatch(source)
    if hub_id is None:
        raise BadInputError(
            f"source {source}: no such folder or file, and not a hub id (owner/name); "
            f"give the folder that holds {name}"
        )
    config = hub_id[2] or data_set.hub_config
    return _named_splits(name, data_set, hub_rows(hub_id[1], config=config), source)


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


def _named_splits(
    name: str, data_set: DataSet, splits: Mapping[str, list[RawRow]], source: str
) -> dict[str, list[RawRow]]:
    """The splits of the data set, by its names."""
    if not any(splits.values()):
        raise BadInputError(f"{source}: it is empty; fetch it again")
    names = {split: data_set.published(split) for split in data_set.splits}
    found = {split: splits[there] for split, there in names.items() if splits.get(there)}
    if not found and len(splits) == 1:
        # A benchmark without a train set is often uploaded as a lone "train" split.
        found = {data_set.splits[0]: next(iter(splits.values()))}
    if not found:
        raise BadInputError(
            f"{source}: it has the splits {', '.join(splits)}; "
            f"{name} needs one of {', '.join(names.values())}"
        )
    return found
