"""Reads published ARC puzzles: a folder of JSON files, or Kaggle's combined files.

Both layouts give the same puzzles in the same order. The train/test split is decided by the caller.
"""

import pathlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.problems.arc_grids import Challenge, read_puzzle
from pipeline_lib.problems.data_set import RawRow, folder_rows
from pipeline_lib.store.files import read_checked
from pipeline_lib.systems.prr.data.grids import SEPARATOR

_CHALLENGES = "_challenges.json"
_SOLUTIONS = "_solutions.json"
# ConceptARC has one folder per concept.
_PATTERNS = ("*.json", "*/*.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """A published set of puzzles, ordered by id."""

    name: str
    puzzles: tuple[Challenge, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Puzzles, demonstration pairs and test inputs."""
        return {
            f"{self.name}_puzzles": len(self.puzzles),
            f"{self.name}_demonstrations": sum(len(puzzle.train) for puzzle in self.puzzles),
            f"{self.name}_test_inputs": sum(len(puzzle.test) for puzzle in self.puzzles),
        }


def read_subset(source: pathlib.Path, wanted: str) -> Subset:
    """Read one subset.

    ``source`` is a folder with ``NAME/*.json`` or ``*_NAME_challenges.json``, or the prefix of the combined files'
    paths, such as ``kaggle/arc-agi``; ``wanted`` is ``NAME``, or ``NAME=PATH`` with a folder or challenges file elsewhere.

    Raises:
        BadInputError: the subset is absent or ambiguous, or a puzzle is invalid.
    """
    name, _, elsewhere = wanted.partition("=")
    if not name:
        raise BadInputError(f"subset {wanted!r} has no name; expected NAME or NAME=PATH")
    path = pathlib.Path(elsewhere) if elsewhere else _find_subset(source, name)
    if path.is_dir():
        rows: Iterable[RawRow] = [*(folder_rows(path, _PATTERNS) or ())]
    elif path.name.endswith(_CHALLENGES):
        rows = _combined_rows(path)
    else:
        raise BadInputError(f"{path}: neither a folder of puzzles nor a file *{_CHALLENGES}")
    if not rows:
        raise BadInputError(f"{path}: no puzzles; expected JSON files with train and test")
    puzzles = sorted((read_puzzle(row, Challenge) for row in rows), key=lambda puzzle: puzzle.id)
    marked = next((puzzle.id for puzzle in puzzles if SEPARATOR in puzzle.id), None)
    if marked:
        raise BadInputError(
            f"{path}: the id {marked!r} holds {SEPARATOR}, which marks versions; rename it"
        )
    return Subset(name=name, puzzles=tuple(puzzles))


def _find_subset(source: pathlib.Path, name: str) -> pathlib.Path:
    ending = f"_{name}{_CHALLENGES}"
    places = [source / name, source.parent / (source.name + ending), *source.glob(f"*{ending}")]
    found = [place for place in places if place.exists()]
    if not found:
        raise BadInputError(
            f"{source}: no subset {name!r}; looked for the folder {name} and for *{ending}; "
            f"give its place as {name}=PATH"
        )
    if len(found) > 1:
        shown = ", ".join(map(str, found))
        raise BadInputError(f"subset {name!r} is ambiguous ({shown}); choose by {name}=PATH")
    return found[0]


def _combined_rows(path: pathlib.Path) -> list[RawRow]:
    remedy = "fetch it again"
    challenges = read_checked(path, dict[str, dict[str, Any]], remedy=remedy)
    solved = path.with_name(path.name.removesuffix(_CHALLENGES) + _SOLUTIONS)
    has_solutions = solved.is_file()
    solutions = read_checked(solved, dict[str, Any], remedy=remedy) if has_solutions else {}
    rows = []
    for index, (name, fields) in enumerate(challenges.items()):
        row = RawRow(fields={**fields, "id": name}, where=f"{path} puzzle {name}", index=index)
        if has_solutions:
            row = _add_outputs(row, solutions.get(name), solved)
        rows.append(row)
    return rows


def _add_outputs(row: RawRow, outputs: Any, solved: pathlib.Path) -> RawRow:
    tests = row.fields.get("test")
    if not isinstance(tests, list) or not isinstance(outputs, list) or len(tests) != len(outputs):
        raise BadInputError(
            f"{solved}: not one output for each test input of {row.where}; fetch both files again"
        )
    if not all(isinstance(test, dict) for test in tests):
        raise BadInputError(f"{row.where}: a test is no object with an input; fetch it again")
    joined = [{**test, "output": output} for test, output in zip(tests, outputs, strict=True)]
    return RawRow(fields={**row.fields, "test": joined}, where=row.where, index=row.index)
