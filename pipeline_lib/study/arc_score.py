"""The score of ARC Prize: a test input is solved if one of two attempts is its output grid.

Source: arcprize/arc-agi-benchmarking, ``ARCScorer``.
"""

from collections.abc import Iterable, Mapping, Sequence

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import puzzle_input_of
from pipeline_lib.records import Group

NUM_ATTEMPTS = 2


def arc_prize_score(solved: Mapping[str, Sequence[bool]]) -> float:
    """Mean over puzzles of the share of solved test inputs.

    Args:
        solved: whether each test input is solved, by puzzle; there is at least one.
    """
    return sum(sum(inputs) / len(inputs) for inputs in solved.values()) / len(solved)


def solved_by_first_paths(groups: Iterable[Group]) -> dict[str, list[bool]]:
    """For each puzzle, and each of its test inputs: whether one of the first two scored paths has its grid.

    Raises:
        BadInputError: a problem has fewer than two scored paths, or a puzzle lacks a test input before its last.
    """
    solved: dict[str, dict[int, bool]] = {}
    for group in groups:
        scored = sorted(group.scored(), key=lambda member: member.path.index)[:NUM_ATTEMPTS]
        if len(scored) < NUM_ATTEMPTS:
            raise BadInputError(
                f"problem {group.problem.id!r} has {len(scored)} scored paths; a submission needs "
                f"{NUM_ATTEMPTS}; draw more, or look at the verifier's failures"
            )
        asked = puzzle_input_of(group.problem.id)
        found = any(member.verdict.lenient for member in scored)
        solved.setdefault(asked.puzzle_id, {})[asked.index] = found
    for puzzle_id, inputs in solved.items():
        if absent := sorted(set(range(max(inputs))) - inputs.keys()):
            raise BadInputError(
                f"puzzle {puzzle_id!r} lacks test input {absent[0]}; a puzzle is scored whole, so "
                "take in all problems of it"
            )
    return {puzzle_id: [*inputs.values()] for puzzle_id, inputs in solved.items()}
