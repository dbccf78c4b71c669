"""Prompts depend on the problem and the chat format alone."""

import dataclasses
from dataclasses import dataclass

import pytest

from pipeline_lib.engines.chat_model import Conversation, Message
from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.kinds.table import KINDS
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import (
    conversation,
    instruction,
    render,
    stops,
    template_digest,
)

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
ARC_PROBLEM = Problem(
    id="a/0", question="Test input:\n1 2", gold=ArcGold(output=((7, 8), (9, 6))), source="test"
)


@dataclass(frozen=True)
class Shouting:
    """A chat format that is easy to recognize."""

    digest: str = "shouting"
    is_compact: bool = False

    def render(self, conversation: Conversation) -> str:
        turns = "".join(f"<{turn.role}>{turn.content}" for turn in conversation)
        return f"{turns}<assistant>"


def test_a_chat_model_of_compact_prompts():
    """The user's message is the prompt that a base model gets; the template adds the line break."""
    compact = Shouting(is_compact=True)
    assert conversation(COUNTDOWN, compact) == [Message.user("3,5,3=24")]
    assert render(COUNTDOWN, compact) == render(COUNTDOWN, None)
    assert conversation(COUNTDOWN, Shouting()) == [Message.user(instruction(COUNTDOWN))]


def test_messages_are_a_form_of_the_question():
    """The last one gets the instruction; a system prompt is before the examples, and a base model reads all texts."""
    turns = (("system", "Be brief."), ("user", "Hi"), ("assistant", "Yes?"), ("user", "1+1?"))
    asked = dataclasses.replace(MATH, question="Hi\n\nYes?\n\n1+1?", turns=turns)
    last = f"1+1?\n\n{MATH.kind.instruction}"
    assert render(asked, Shouting()) == (
        f"<system>Be brief.<user>Hi<assistant>Yes?<user>{last}<assistant>"
    )
    assert render(asked, None) == f"Be brief.\n\nHi\n\nYes?\n\n{last}\n\n"
    shown = dataclasses.replace(asked, solution="2")
    assert render(asked, Shouting(), examples=[shown]).startswith(
        f"<system>Be brief.<user>Hi<assistant>Yes?<user>{last}<assistant>2\n\\boxed{{2}}<user>Hi<"
    )


def test_compact_countdown_prompt():
    """A base model gets numbers and target alone."""
    assert render(COUNTDOWN, None) == "3,5,3=24\n"


def test_chat_models_get_the_instruction_in_their_own_format():
    """The chat format wraps question and answer format."""
    for problem, word in [
        (COUNTDOWN, "exactly once"),
        (MATH, "\\boxed"),
        (CODE, "fenced"),
        (ARC_PROBLEM, "fenced"),
    ]:
        text = render(problem, Shouting())
        assert text == f"<user>{instruction(problem)}<assistant>"
        assert problem.question in text
        assert word in text


EXAMPLE = Problem(
    id="e",
    question="What is 2+3?",
    gold=MathGold(answer="5"),
    source="test",
    solution="2+3=<<2+3=5>>5.\n#### 5",
)


def test_examples_are_earlier_turns_in_the_requested_format():
    """Question with instruction, and the solution with its answer in a box, without calculator marks."""
    answer = "2+3=5.\n\\boxed{5}"
    assert render(MATH, Shouting(), examples=[EXAMPLE]) == (
        f"<user>{instruction(EXAMPLE)}<assistant>{answer}<user>{instruction(MATH)}<assistant>"
    )
    assert render(MATH, None, examples=[EXAMPLE]) == (
        f"{instruction(EXAMPLE)}\n\n{answer}\n\n{instruction(MATH)}\n\n"
    )


def test_a_base_model_stops_where_a_further_example_would_begin():
    """At an empty line, or the instruction if a solution has one; chat models end their turn."""
    spaced = dataclasses.replace(EXAMPLE, solution="2+3\n\nis 5.\n#### 5")
    assert stops(None, []) == stops(Shouting(), [EXAMPLE]) == ()
    assert stops(None, [EXAMPLE]) == ("\n\n",)
    assert stops(None, [EXAMPLE, spaced]) == (MATH.kind.instruction,)
    for shown in ([EXAMPLE], [spaced]):
        solution, [stop] = (
            shown[0].kind.solution_texts(shown[0].gold, shown[0].solution)[0],
            stops(None, shown),
        )
        continued = f"{solution}\n\n{instruction(MATH)}\n\n7.\n\\boxed{{7}}"
        assert continued.partition(stop)[0].startswith(solution)
        assert "\\boxed{7}" not in continued.partition(stop)[0]


def test_the_digest_covers_the_examples():
    """None, one, and the same with another solution are three templates."""
    other = dataclasses.replace(EXAMPLE, solution="5.\n#### 5")
    found = {
        template_digest(MATH.kind, None, examples=examples) for examples in ([], [EXAMPLE], [other])
    }
    assert len(found) == 3


def test_the_gold_stays_out_of_the_prompt():
    """Neither the answer, nor the tests, nor the output grid are shown."""
    assert render(MATH, None).count("2") == 0
    assert "assert" not in render(CODE, None)
    assert not set("6789") & set(render(ARC_PROBLEM, None))


def test_digest_tells_templates_apart():
    """Another chat format or another kind is another template."""
    found = {template_digest(kind, own) for kind in KINDS.values() for own in (None, Shouting())}
    assert len(found) == 2 * len({kind.instruction for kind in KINDS.values()})


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("math", "59c5187553039525"),
        ("code", "ea1341403e6a9875"),
        ("countdown", "e0459e73f691fd7f"),
        ("arc", "ea5f20f402f582b6"),
    ],
)
def test_the_digest_of_a_kind_stays(kind, digest):
    """Paths on disk name their template by it."""
    assert template_digest(KINDS[kind], None) == digest


def test_the_digest_covers_the_instruction():
    """Another instruction is another template."""
    kind = ARC_PROBLEM.kind
    changed = dataclasses.replace(kind, instruction="Draw it.")
    assert template_digest(changed, None) != template_digest(kind, None)
