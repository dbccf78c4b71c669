"""The tree of a rollout as text."""

import pytest

from pipeline_lib.systems.apr.evaluation.evaluate import tree_lines
from pipeline_lib.systems.apr.evaluation.study import TOKEN_COUNTS

COUNTS = ", ".join(f"{name} 1" for name in TOKEN_COUNTS)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"claim": True, "is_correct": True}, f"the claim is right; tokens: {COUNTS}"),
        ({"claim": True, "is_correct": False}, f"the claim is wrong; tokens: {COUNTS}"),
        ({"claim": None, "is_correct": False}, f"no claim; tokens: {COUNTS}"),
        ({"error": "too long"}, "failed: too long"),
    ],
)
def test_the_last_line_says_what_came_of_it(fields, line):
    assert [*tree_lines({"seqs": [], "tokens": dict.fromkeys(TOKEN_COUNTS, 1), **fields})] == [line]
