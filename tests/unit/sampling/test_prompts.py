"""One template: what a model sees depends on the problem and on its own chat format alone."""

from dataclasses import dataclass

import pytest

from pipeline_lib.records import ArcGold, CodeGold, CountdownGold, Kind, MathGold, Problem
from pipeline_lib.sampling.prompts import INSTRUCTIONS, instruction, render, template_digest

COUNTDOWN = Problem(
    id="c", question="Make 24.", gold=CountdownGold(numbers=(3, 5, 3), target=24), source="test"
)
MATH = Problem(id="m", question="What is 1+1?", gold=MathGold(answer="2"), source="test")
CODE = Problem(
    id="p",
    question="Add.",
    gold=CodeGold(entry_point="add", tests="assert add(1, 1) == 2"),
    source="test",
)
ARC = Problem(
    id="a/0", question="Test input:\n1 2", gold=ArcGold(output=((7, 8), (9, 6))), source="test"
)


@dataclass(frozen=True)
class Shouting:
    """A chat format that is easy to recognize."""

    digest: str = "shouting"

    def render(self, user_message: str) -> str:
        return f"<user>{user_message}<assistant>"


def test_compact_countdown_prompt():
    """A plain completion model gets numbers and target, nothing else."""
    assert render(COUNTDOWN, None) == "3,5,3=24\n"


def test_chat_models_get_the_instruction_in_their_own_format():
    """The instruction holds question and answer format, and the format wraps it."""
    for problem, word in [
        (COUNTDOWN, "exactly once"),
        (MATH, "\\boxed"),
        (CODE, "fenced"),
        (ARC, "fenced"),
    ]:
        text = render(problem, Shouting())
        assert text == f"<user>{instruction(problem)}<assistant>"
        assert problem.question in text
        assert word in text


def test_the_gold_stays_out_of_the_prompt():
    """Neither the answer, nor the tests, nor the output grid are shown."""
    assert render(MATH, None).count("2") == 0
    assert "assert" not in render(CODE, None)
    assert not set("6789") & set(render(ARC, None))


def test_digest_tells_templates_apart():
    """Another chat format or another kind is another template."""
    found = {template_digest(kind, own) for kind in Kind for own in (None, Shouting())}
    assert len(found) == 2 * len(Kind)


def test_the_digest_of_a_kind_is_its_own():
    """Another instruction of one kind leaves the digests of the others as they are."""
    before = {kind: template_digest(kind, None) for kind in Kind}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(INSTRUCTIONS, Kind.ARC, "Draw it.")
        after = {kind: template_digest(kind, None) for kind in Kind}
    assert [kind for kind in Kind if before[kind] != after[kind]] == [Kind.ARC]
