"""ARC puzzles as problems: one per test input, each shown with all demonstrations of its puzzle.

A puzzle is pairs of grids that follow one rule. Tokenization is in `systems.prr.data`. Editions must not be
combined: ARC-AGI-2 repeats most puzzles of ARC-AGI-1.
"""

from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from pipeline_lib.grids import Grid, grid_of, grid_text
from pipeline_lib.kinds.arc import ArcGold, PuzzleInput
from pipeline_lib.problems.data_set import DataSet, RawRow
from pipeline_lib.records import Problem

_INTRODUCTION = (
    "Each input grid becomes its output grid by the same rule. "
    "A grid is written one row a line; the digits 0 to 9 are colours."
)
_GridField = Annotated[Grid, BeforeValidator(grid_of)]
_Model = TypeVar("_Model", bound=BaseModel)


class OpenPair(BaseModel, frozen=True):
    """An input grid, with its output grid if known."""

    input: _GridField
    output: _GridField | None = None


class Pair(OpenPair, frozen=True):
    """An input grid with its output grid."""

    output: _GridField


class Challenge(BaseModel, frozen=True):
    """Demonstration pairs of a rule, and test pairs whose outputs may be missing, as in a competition."""

    id: str
    train: Annotated[tuple[Pair, ...], Field(min_length=1)]
    test: Annotated[tuple[OpenPair, ...], Field(min_length=1)]


class Puzzle(Challenge, frozen=True):
    """A challenge whose test outputs are known."""

    test: Annotated[tuple[Pair, ...], Field(min_length=1)]


def read_puzzle(row: RawRow, model: type[_Model]) -> _Model:
    """The `Puzzle` or `Challenge` in a row with ``id``, ``train`` and ``test``.

    Raises:
        BadInputError: a pair or a grid is missing or invalid; the message names file and place.
    """
    try:
        return model.model_validate({**row.fields, "id": row.text("id")})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise row.error(place, first["msg"].removeprefix("Value error, ")) from error


def arc_problems(row: RawRow, *, id_prefix: str, source: str) -> list[Problem]:
    """The problems of a puzzle. The solution is the output grid in the answer format, without reasoning."""
    del id_prefix  # puzzles have ids, which a submission needs
    puzzle = read_puzzle(row, Puzzle)
    return [
        Problem(
            id=PuzzleInput(puzzle_id=puzzle.id, index=index).problem_id,
            question=_question(puzzle, pair.input),
            gold=ArcGold(output=pair.output),
            source=source,
            solution=f"```\n{grid_text(pair.output)}\n```",
        )
        for index, pair in enumerate(puzzle.test)
    ]


def _question(puzzle: Puzzle, test_input: Grid) -> str:
    shown = [
        f"{name} {number}:\n{grid_text(grid)}"
        for number, pair in enumerate(puzzle.train, start=1)
        for name, grid in (("Input", pair.input), ("Output", pair.output))
    ]
    return "\n\n".join([_INTRODUCTION, *shown, f"Test input:\n{grid_text(test_input)}"])


ARC = DataSet(
    parse=arc_problems,
    splits=("train", "test"),
    patterns=("{split}/*.json",),
    published_splits={"train": "training", "test": "evaluation"},
    many_editions=True,
    known_repeats=frozenset({"40853293/0"}),  # ARC-AGI-1 has it as 070dd51e/0, too
)
CONCEPT_ARC = DataSet(parse=arc_problems, splits=("test",), patterns=("corpus/*/*.json", "*.json"))
