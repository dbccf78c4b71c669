"""Output grids of ARC puzzles."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel

from pipeline_lib.errors import BadInputError
from pipeline_lib.grids import Grid, grid_of, grid_text
from pipeline_lib.kinds.kind import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ArcGold:
    """The output grid of one test input of an ARC puzzle.

    Raises:
        ValueError: ``output`` is not a grid of 1 to 30 by 1 to 30 colours from 0 to 9.
    """

    output: Grid

    def __post_init__(self) -> None:
        grid_of(self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class PuzzleInput:
    """A test input, counted from 0, of a puzzle: the subject of one problem."""

    puzzle_id: str
    index: int

    @property
    def problem_id(self) -> str:
        """Id of its problem."""
        return f"{self.puzzle_id}/{self.index}"


def puzzle_input_of(problem_id: str) -> PuzzleInput:
    """Inverse of :attr:`PuzzleInput.problem_id`; BadInputError: it is not the id of an ARC problem."""
    puzzle_id, _, index = problem_id.rpartition("/")
    if not puzzle_id or not (index.isascii() and index.isdigit()):
        raise BadInputError(f"{problem_id!r} is no id of an ARC problem, as in 0a1d4ef5/0")
    return PuzzleInput(puzzle_id=puzzle_id, index=int(index))


class _Line(BaseModel):
    gold: Annotated[Any, AfterValidator(grid_of)]


ARC = Kind(
    name="arc",
    gold=ArcGold,
    instruction=(
        "Find the rule, and give the output grid of the test input last, in one fenced block that "
        "holds nothing else: one row a line, digits separated by spaces."
    ),
    judge="pipeline_lib.verify.arc:open_judge",
    answer_form="pipeline_lib.verify.arc:answer_form",
    show_gold=lambda gold: grid_text(gold.output),
    read_line=lambda row: ArcGold(output=_Line.model_validate(row).gold),
    write_line=lambda gold: {"gold": [list(row) for row in gold.output]},
    split_unit=lambda problem_id: puzzle_input_of(problem_id).puzzle_id,
    # A row of one colour occurs in most puzzles.
    prose_questions=False,
)
