"""The score of ARC Prize: two attempts per test input.

The format of a submission is in `problems.arc_submission`. Nothing here reads or writes files, or
ranks answers: :func:`submission_of` submits the first two paths.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pipeline_lib.errors import BadInputError
from pipeline_lib.grids import Grid, grid_of
from pipeline_lib.kinds.arc import ArcGold, PuzzleInput, puzzle_input_of
from pipeline_lib.problems.arc_submission import ATTEMPTS, Attempts, read_submission
from pipeline_lib.records import Group, Problem
from pipeline_lib.verdicts import Verdict

_Value = TypeVar("_Value")

Solutions = Mapping[str, Sequence[Grid]]
"""The output grids of every puzzle's test inputs, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PuzzleScore:
    """The test inputs of one puzzle; solved if one of the two attempts is right."""

    puzzle_id: str
    solved: tuple[bool, ...]

    @property
    def share(self) -> float:
        """Share of the test inputs that are solved."""
        return sum(self.solved) / len(self.solved)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArcScore:
    """Score of a submission over all puzzles of the solutions. Rates are in [0, 1]."""

    puzzles: tuple[PuzzleScore, ...]
    missing: tuple[str, ...]
    """Puzzles without any attempt; they count as unsolved."""
    num_not_grids: int
    """Attempts that are no grid; they are wrong."""

    @property
    def pass_at_2(self) -> float:
        """Mean share of solved test inputs over puzzles.

        Source: arcprize/arc-agi-benchmarking, ``ARCScorer``.
        """
        return sum(puzzle.share for puzzle in self.puzzles) / len(self.puzzles)

    @property
    def all_solved(self) -> float:
        """Share of puzzles whose test inputs are all solved."""
        return sum(all(puzzle.solved) for puzzle in self.puzzles) / len(self.puzzles)

    @property
    def test_inputs_solved(self) -> float:
        """Share of test inputs that are solved, whatever puzzle they belong to."""
        solved = [one for puzzle in self.puzzles for one in puzzle.solved]
        return sum(solved) / len(solved)


def score_submission(submission: Any, solutions: Solutions) -> ArcScore:
    """Score a submission as it was read from JSON.

    Exact equality decides, shape included. A puzzle that is missing is unsolved, an attempt that is
    no grid is wrong; both are counted.

    Raises:
        BadInputError: no solutions, or a submission for something else: a puzzle that is unknown, a
            wrong number of test inputs, an entry without both attempts.
    """
    if not solutions:
        raise BadInputError("no solutions to score against; give at least one puzzle")
    read = read_submission(
        submission, {puzzle_id: len(outputs) for puzzle_id, outputs in solutions.items()}
    )
    puzzles = []
    for puzzle_id, outputs in solutions.items():
        attempts = read.attempts.get(puzzle_id, [[]] * len(outputs))
        solved = tuple(output in both for output, both in zip(outputs, attempts, strict=True))
        puzzles.append(PuzzleScore(puzzle_id=puzzle_id, solved=solved))
    return ArcScore(puzzles=tuple(puzzles), missing=read.missing, num_not_grids=read.num_not_grids)


def solutions_of(problems: Iterable[Problem]) -> dict[str, list[Grid]]:
    """The output grids of the puzzles that ARC problems ask about.

    Raises:
        BadInputError: a problem is not of ARC, or a puzzle lacks a test input before its last.
    """
    outputs: dict[PuzzleInput, Grid] = {}
    for problem in problems:
        if not isinstance(problem.gold, ArcGold):
            raise BadInputError(f"problem {problem.id!r} is one of {problem.kind.name}, not of arc")
        outputs[puzzle_input_of(problem.id)] = problem.gold.output
    return _by_puzzle(outputs)


def submission_of(groups: Iterable[Group]) -> dict[str, list[Attempts]]:
    """A submission, ready for JSON: the first two scored paths of every problem are its attempts.

    A path without a grid becomes an empty list, which solves nothing.

    Raises:
        BadInputError: a problem has fewer than two scored paths or is none of ARC, or a puzzle
            lacks a test input before its last.
    """
    attempts: dict[PuzzleInput, Attempts] = {}
    for group in groups:
        scored = sorted(group.scored(), key=lambda member: member.path.index)
        if len(scored) < len(ATTEMPTS):
            raise BadInputError(
                f"problem {group.problem.id!r} has {len(scored)} scored paths; a submission needs "
                f"{len(ATTEMPTS)}; draw more, or look at the verifier's failures"
            )
        attempts[puzzle_input_of(group.problem.id)] = {
            name: [list(row) for row in answered_grid(member.verdict) or ()]
            for name, member in zip(ATTEMPTS, scored, strict=False)
        }
    return _by_puzzle(attempts)


def answered_grid(verdict: Verdict) -> Grid | None:
    """The grid that a verdict on ARC extracted, or None if there was none."""
    try:
        return grid_of(json.loads(verdict.extracted or ""))
    except ValueError:
        return None


def _by_puzzle(values: Mapping[PuzzleInput, _Value]) -> dict[str, list[_Value]]:
    numbered: dict[str, dict[int, _Value]] = {}
    for puzzle_input, value in values.items():
        numbered.setdefault(puzzle_input.puzzle_id, {})[puzzle_input.index] = value
    for puzzle_id, by_index in numbered.items():
        if absent := sorted(set(range(max(by_index) + 1)) - by_index.keys()):
            raise BadInputError(
                f"puzzle {puzzle_id!r} lacks test input {absent[0]}; a puzzle is scored whole, so "
                "take in all problems of it"
            )
    return {
        puzzle_id: [by_index[index] for index in range(len(by_index))]
        for puzzle_id, by_index in numbered.items()
    }
