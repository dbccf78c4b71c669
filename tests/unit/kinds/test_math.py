"""Location of a math problem's gold in a worked solution."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.kinds.math import last_boxed, reference_answer


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("6+12=18\n#### 18", "18"),
        ("6+12=18\nA: 18\n", "18"),
        ("18", "18"),
        ("#### 18\nThus 18 ducks.", "18"),
        ("", ""),
    ],
)
def test_the_answer_of_a_reference(reference, answer):
    """A worked solution ends in its answer."""
    assert reference_answer(reference) == answer


@pytest.mark.parametrize(
    ("solution", "content"),
    [
        (r"\boxed{1} or \boxed{2}", "2"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{1} then \boxed{2", "1"),
        (r"\fbox{7}", "7"),
        ("nothing", None),
    ],
)
def test_last_boxed_cases(solution: str, content: str | None):
    """The last balanced box counts; escaped braces do not balance anything."""
    assert last_boxed(solution) == content


balanced = st.recursive(
    st.text(alphabet="ab1 +", max_size=5),
    lambda inner: st.builds("{}{{{}}}{}".format, inner, inner, inner),
    max_leaves=8,
)


@given(before=balanced, content=balanced, after=st.text(alphabet="ab}. ", max_size=10))
def test_last_boxed_inverts_boxing(before: str, content: str, after: str):
    """Any balanced content comes back out of its box, whatever surrounds it."""
    assert last_boxed(f"{before}\\boxed{{{content}}}{after}") == content.strip()
