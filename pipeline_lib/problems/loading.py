"""All data sets by the value of ``prepare.dataset``, and their loading, split by split, from a folder or a hub.

A new data set is a parser of its rows and a line in ``DATA_SETS``.
"""

import itertools
import json
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pipeline_lib.errors import BadInputError, Faults, suggestion
from pipeline_lib.own.code import Source
from pipeline_lib.params.paths import GYM, LINES, DataParams
from pipeline_lib.problems import arc_grids, code_cases, countdown, hops, row_parsers, word_problems
from pipeline_lib.problems.data_set import (
    DataSet,
    RawRow,
    file_rows,
    folder_rows,
    hub_rows,
    is_saved,
)
from pipeline_lib.problems.lines import lines_data_set
from pipeline_lib.problems.own_task import task_of
from pipeline_lib.records import Problem
from pipeline_lib.terminal_text import one_line

GENERATED = (countdown.NAME, word_problems.NAME, hops.NAME)
"""The data sets that are generated; all others are loaded."""

DATA_SETS: Mapping[str, DataSet] = {
    "gsm8k": row_parsers.GSM8K,
    "math": row_parsers.MATH,
    "math500": row_parsers.MATH_500,
    "aime": row_parsers.YEARLY_CONTEST,
    "hmmt": row_parsers.YEARLY_CONTEST,
    **row_parsers.YEARS,
    "humaneval": row_parsers.HUMANEVAL,
    "mbpp": row_parsers.MBPP,
    "arc": arc_grids.ARC,
    "concept-arc": arc_grids.CONCEPT_ARC,
    "humaneval-plus": code_cases.HUMANEVAL_PLUS,
    "mbpp-plus": code_cases.MBPP_PLUS,
    "livecodebench": code_cases.LIVECODEBENCH,
    "apps": code_cases.APPS,
    LINES: lines_data_set(DataParams(dataset=LINES)),
}

_SHOWN_CHARACTERS = 60
_HUB_ID = re.compile(r"([\w-][\w.-]*/[\w-][\w.-]*)(?::([\w.-]+))?")
"""Owner and name, and the config of one that has several."""


def is_data_set(name: str) -> bool:
    """True for a data set that is generated or loaded, and for its rows of some days."""
    return name in GENERATED or name.partition("@")[0] in DATA_SETS


def full_name(params: DataParams) -> str:
    """``dataset``, and what else says which task it is."""
    named = f"{GYM}:" if params.gym else params.dataset
    options = params.gym or params.taskset
    return f"{named}{json.dumps(options, sort_keys=True)}" if options else named


def task_in(params: DataParams) -> Source | None:
    """The task that ``params`` name, if they name no data set; errors as of `task_of`."""
    return None if is_data_set(params.dataset) else task_of(full_name(params))


def find_data_set(name: str, *, generated: Sequence[str] = ()) -> DataSet:
    """The data set of that name, or its rows of some days by ``NAME@FIRST..LAST``; BadInputError if there is none."""
    base, at, window = name.partition("@")
    if base not in DATA_SETS:
        shown, known = one_line(repr(name), most=_SHOWN_CHARACTERS), [*generated, *DATA_SETS]
        close = suggestion(name, known) or ";"
        raise BadInputError(f"data set {shown} is unknown{close} there are {', '.join(known)}")
    return DATA_SETS[base].of_days(window) if at else DATA_SETS[base]


def check_data_set(params: DataParams, *, generated: Sequence[str] = GENERATED) -> None:
    """Raise BadInputError with the names if ``params`` name no data set, nor a task."""
    if params.dataset not in generated and task_in(params) is None:
        find_data_set(params.dataset, generated=generated)


def source_of(name: str, source: str | None, *, key: str = "prepare.source") -> str:
    """``source``, or else where the data set is published; BadInputError without either, about ``key``."""
    found = source or find_data_set(name).hub_id
    if found is None:
        raise BadInputError(
            f"{key} is not set; {name} needs a folder in its original format, a file or a hub id"
        )
    return found


def load_splits(name: str, source: str, form: DataParams | None = None) -> dict[str, list[Problem]]:
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
        for row in data_set.checked(rows):
            if data_set.is_in and not data_set.is_in(row, split):
                continue
            with faults.kept():
                parsed = data_set.parse(row, id_prefix=f"{label}-{split}", source=label)
                for problem in [parsed] if isinstance(parsed, Problem) else parsed:
                    placed = replace(problem, where=row.where)
                    _check(placed, row, known.setdefault(problem.id, (split, placed)), split)
                    loaded.setdefault(split, []).append(placed)
    faults.raise_any()
    if not loaded:
        raise BadInputError(f"{source}: none of its rows is of {name}; give another source")
    return loaded


def load_evaluation_set(name: str, source: str, form: DataParams | None = None) -> list[Problem]:
    """The test split of ``source``, or all of its problems where it has none; see `load_splits`."""
    splits = load_splits(name, source, form)
    found = splits.get("test") or [p for problems in splits.values() for p in problems]
    return [*{problem.id: problem for problem in found}.values()]


def _check(problem: Problem, row: RawRow, first: tuple[str, Problem], split: str) -> None:
    """``first`` is the split and the problem that has the id. The same one again in its split is a repeat."""
    there, other = first
    repeats = there == split and (other.question, other.gold) == (problem.question, problem.gold)
    if other.where != row.where and not repeats:
        raise BadInputError(
            f"{row.where}: the problem {problem.id!r} is also at {other.where}; remove one of them"
        )


def _raw_splits(name: str, data_set: DataSet, source: str) -> dict[str, Iterable[RawRow]]:
    """The rows of the splits that the data set and ``source`` have."""
    splits = _source_splits(name, data_set, source)
    names = {split: data_set.published(split) for split in data_set.splits}
    found = {split: iter(splits[there]) for split, there in names.items() if there in splits}
    if not found and len(splits) == 1:
        # A file; or a benchmark without a train set, often uploaded as a lone "train" split.
        those = data_set.splits if data_set.is_in else data_set.splits[:1]
        copies = itertools.tee(next(iter(splits.values())), len(those))
        found = dict(zip(those, copies, strict=True))
    if not found:
        looked_for = ", ".join(pattern.format(split="SPLIT") for pattern in data_set.patterns)
        raise BadInputError(
            f"{source}: no problems of {name}; it has the splits {', '.join(splits) or 'none'}, and looked for was "
            f"{looked_for} with SPLIT one of {', '.join(names.values())}"
        )
    chosen: dict[str, Iterable[RawRow]] = {}
    for split, rows in found.items():
        if (first := next(rows, None)) is None:
            raise BadInputError(f"{source}: the {split} split of {name} is empty; fetch it again")
        chosen[split] = itertools.chain([first], rows)
    return chosen


def _source_splits(name: str, data_set: DataSet, source: str) -> Mapping[str, Iterable[RawRow]]:
    """All rows by the names that splits have in the source; "" for a single one without a name."""
    path, hub_id = pathlib.Path(source).expanduser(), _HUB_ID.fullmatch(source)
    if path.is_file():
        return {"": file_rows(path)}
    if is_saved(path):
        return hub_rows(str(path), config=None)
    if path.is_dir():
        names = map(data_set.published, data_set.splits)
        read = {
            one: folder_rows(path, [p.format(split=one) for p in data_set.patterns])
            for one in names
        }
        return {one: rows for one, rows in read.items() if rows is not None}
    if hub_id is None:
        raise BadInputError(
            f"source {source}: no such folder or file, and not a hub id (owner/name); "
            f"give the folder that holds {name}"
        )
    return hub_rows(hub_id[1], config=hub_id[2] or data_set.hub_config)
