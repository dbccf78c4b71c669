"""All data sets by the value of ``prepare.dataset``, and their loading, split by split, from a folder or a hub.

A new data set is a parser of its rows and a line in ``DATA_SETS``.
"""

import itertools
import pathlib
import re
from collections.abc import Iterable, Mapping

from pipeline_lib.errors import BadInputError, Faults, suggestion
from pipeline_lib.problems import arc_grids, code_cases, countdown, row_parsers, word_problems
from pipeline_lib.problems.data_set import DataSet, RawRow, folder_rows, hub_rows
from pipeline_lib.records import Problem
from pipeline_lib.terminal_text import one_line

GENERATED = (countdown.NAME, word_problems.NAME)
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
}

_SHOWN_CHARACTERS = 60
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def find_data_set(name: str, *, others: tuple[str, ...] = ()) -> DataSet:
    """The data set of that name, or its rows of some days by ``NAME@FIRST..LAST``; BadInputError if there is none."""
    base, at, window = name.partition("@")
    if base not in DATA_SETS:
        known = (*others, *DATA_SETS)
        shown = one_line(repr(name), most=_SHOWN_CHARACTERS)
        close = suggestion(name, known) or ";"
        raise BadInputError(f"data set {shown} is unknown{close} there are {', '.join(known)}")
    return DATA_SETS[base].of_days(window) if at else DATA_SETS[base]


def check_data_set(name: str) -> None:
    """Raise BadInputError with the names if ``name`` is no data set that is generated or loaded."""
    if name not in GENERATED:
        find_data_set(name, others=GENERATED)


def source_of(name: str, source: str | None, *, key: str = "prepare.source") -> str:
    """``source``, or else where the data set is published; BadInputError without either, about ``key``."""
    found = source or find_data_set(name).hub_id
    if found is None:
        raise BadInputError(
            f"{key} is not set; {name} needs a folder in its original format or a hub id"
        )
    return found


def load_splits(name: str, source: str) -> dict[str, list[Problem]]:
    """The problems of every official split that ``source`` holds, in the order of its files.

    ``name`` is a key of ``DATA_SETS``; ``source`` is a folder in the publisher's format or in a hub's
    parquet export, or a hub id such as ``openai/gsm8k``.

    Raises:
        BadInputError: an unknown name, no files, unusable rows, an empty split, or a repeated id;
            the message names file, line and key of up to 20 rows.
    """
    data_set = find_data_set(name)
    label = pathlib.Path(source).resolve().name if data_set.many_editions else name
    loaded: dict[str, list[Problem]] = {}
    places: dict[str, str] = {}
    faults = Faults()
    for split, rows in _raw_splits(name, data_set, source).items():
        for row in (one for one in rows if data_set.is_in(one, split)):
            with faults.kept():
                parsed = data_set.parse(row, id_prefix=f"{label}-{split}", source=label)
                problems = [parsed] if isinstance(parsed, Problem) else parsed
                for problem in problems:
                    _check(problem, row, places)
                loaded.setdefault(split, []).extend(problems)
    faults.raise_any()
    if not loaded:
        raise BadInputError(f"{source}: none of its rows is of {name}; give another source")
    return loaded


def load_evaluation_set(name: str, source: str) -> list[Problem]:
    """The test split of ``source``, or all of its problems where it has none; see `load_splits`."""
    splits = load_splits(name, source)
    return splits.get("test") or [p for problems in splits.values() for p in problems]


def _check(problem: Problem, row: RawRow, places: dict[str, str]) -> None:
    if not problem.question.strip():
        raise row.error("question", "it is empty")
    earlier = places.setdefault(problem.id, row.where)
    if earlier != row.where:
        raise BadInputError(
            f"{row.where}: the id {problem.id!r} is also at {earlier}; remove one of them"
        )


def _raw_splits(name: str, data_set: DataSet, source: str) -> Mapping[str, Iterable[RawRow]]:
    folder = pathlib.Path(source).expanduser()
    if folder.is_dir():
        return _folder_splits(name, data_set, folder)
    if not _HUB_ID.fullmatch(source):
        raise BadInputError(
            f"source {source}: no such folder, and not a hub id (owner/name); "
            f"give the folder that holds {name}"
        )
    return _hub_splits(name, data_set, source)


def _folder_splits(
    name: str, data_set: DataSet, folder: pathlib.Path
) -> Mapping[str, Iterable[RawRow]]:
    found = {}
    for split in data_set.splits:
        names = [one.format(split=data_set.published(split)) for one in data_set.patterns]
        if (rows := folder_rows(folder, names)) is None:
            continue
        if (first := next(rows, None)) is None:
            raise BadInputError(f"{folder}: the {split} split of {name} is empty; fetch it again")
        found[split] = itertools.chain([first], rows)
    if not found:
        looked_for = ", ".join(pattern.format(split="SPLIT") for pattern in data_set.patterns)
        raise BadInputError(
            f"{folder}: no problems of {name}; looked for {looked_for} "
            f"with SPLIT one of {', '.join(map(data_set.published, data_set.splits))}"
        )
    return found


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
