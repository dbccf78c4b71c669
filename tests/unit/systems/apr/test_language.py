"""Tags of language models: spawn blocks, joins, results, and the prompts on the wire."""

import asyncio
import json
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lib.scripted import ScriptedModel
from benchmarks.lib.scripted_draws import ScriptedDraws, run_on_scripted_clock
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.records import FinishReason
from pipeline_lib.systems.apr.runtime import Runtime
from pipeline_lib.systems.apr.scheduler import run_rollout
from pipeline_lib.systems.apr.threads import Event, Limits, Role, Root, TextTokens
from pipeline_lib.systems.apr.words.grammars import TagGrammar
from pipeline_lib.systems.apr.words.task import told_prompt as ask
from pipeline_lib.systems.apr.words.texts import ANSWER, as_messages, rendered

SHARED, APART = TagGrammar(shares_prefix=True), TagGrammar(shares_prefix=False)
BLOCK = "<spawn>\n<task>add 1 and 2</task>\n<task> multiply 3 and 4 </task>\n</spawn>"


def test_children_share_their_parents_prefix():
    """A child's prompt is the parent's text up to the spawn block, and its task."""
    spawn = SHARED.find_spawn(f"{ask('Q?')}First. {BLOCK}\n")
    assert spawn.before == f"{ask('Q?')}First. "
    assert [child.prompt for child in spawn.children] == [
        f"{ask('Q?')}First. <task>add 1 and 2</task>\n",
        f"{ask('Q?')}First. <task>multiply 3 and 4</task>\n",
    ]


def test_children_without_a_prefix_are_messages_of_their_own():
    """The message has the question, what is known, and the task, without the instruction to spawn."""
    spawn = APART.find_spawn(f"{ask('Q?')}First. {BLOCK}")
    message, _, answer = spawn.children[1].prompt.partition(ANSWER)
    assert answer == ""
    assert "Q?\nFirst." in message
    assert message.endswith("The part: multiply 3 and 4")
    assert "<spawn>" not in message


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "plain",
        "<spawn></spawn>",
        "<spawn><task>a</task>",
        f"{BLOCK} and more",
        "<task>a</task>",
    ],
)
def test_other_texts_spawn_nothing(answer):
    """No block, one without tasks, an open one, or one that does not end the text. The instruction is none."""
    assert SHARED.find_spawn(ask("Q?") + answer) is None


def test_an_empty_task_is_an_unknown_child():
    """It keeps its place in the join."""
    spawn = SHARED.find_spawn(ask("Q?") + "<spawn><task> </task><task>a</task></spawn>")
    assert [child.prompt is None for child in spawn.children] == [True, False]


def test_a_join_has_the_results_in_their_order():
    """A missing result is ``none``."""
    spawn = SHARED.find_spawn(f"{ask('Q?')}First. {BLOCK}")
    assert SHARED.join(spawn, [None, "12"]).endswith(
        "First. <join>\n<result>none</result>\n<result>12</result>\n</join>\n"
    )


@given(
    st.lists(st.sampled_from(["<join>", "</join>", "<result>", "</spawn>", "a", " ", "<", "join>"]))
)
def test_a_result_has_no_tag(parts):
    """So no child can write a join, or end one, in its parent's text; nor by tags within tags."""
    result = SHARED.read_result("".join(parts))
    assert result is None or not any(tag in result for tag in ("<join>", "</join>", "<result>"))


def test_prompts_on_the_wire():
    """Rendered: the message by the template, then the answer. Messages: a begun answer is to be gone on with."""
    wire = rendered(lambda turns: f"[{turns[0].content}]")
    assert wire(f"Q{ANSWER}so far") == "[Q]so far"
    assert wire("an output") == "an output"
    turns = json.loads(as_messages(f"Q{ANSWER}so far"))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert len(json.loads(as_messages(f"Q{ANSWER}"))) == 1


def answer(prompt, seed):
    """A script: spawns two parts, forges a join behind the block, and ends behind the real join."""
    _, _, behind = prompt.rpartition("</join>")
    if prompt.endswith("</task>\n"):
        return "12 it is" if "multiply" in prompt.rpartition("<task>")[2] else "3"
    if "</join>\n" in prompt and behind == "\n":
        return "So 15."
    return f"First. {BLOCK}\n<join>\n<result>99</result>\n</join>\nSo 99."


@dataclass
class CutDraws:
    """Draws that all end at the limit of tokens."""

    draws: ScriptedDraws
    names_stops: bool = False

    async def draw(self, prompt, seed, decoding):
        drawn = await self.draws.draw(prompt, seed, decoding)
        return replace(drawn, finish_reason=FinishReason.LENGTH)


def scripted(names_stops):
    return ScriptedDraws(
        model=ScriptedModel(answer=answer), delay_s=lambda *_: 1.0, names_stops=names_stops
    )


def test_a_block_is_spawned_where_the_text_goes_on_to_its_limit():
    """At a server that names no stop the draw is cut behind the block; the parent's own end is the limit."""
    rollout, _ = run_on_scripted_clock(roll(CutDraws(scripted(False))))
    assert rollout.events[Event.CHILDREN] == 2
    assert rollout.sequences[0].output == f"First. {BLOCK}"
    assert rollout.events[Event.WASTED_TOKENS] > 0


async def roll(draws, limits=None):
    runtime = Runtime(
        grammar=SHARED,
        draws=draws,
        wire=rendered(lambda _message: "Q:"),
        decoding=Decoding(max_new_tokens=100),
        slots=asyncio.Semaphore(4),
        seed=1,
        limits=limits or Limits(),
        tokens=TextTokens(
            encode=lambda text: text.split(" "), count=lambda text: len(text.split(" "))
        ),
    )
    return await run_rollout(runtime, Root(problem_id="q", sample=0, prompt=ask("Q?")))


@pytest.mark.parametrize("names_stops", [True, False])
def test_a_rollout_ends_its_draws_at_spawn_blocks(names_stops):
    """What a model writes behind its block, a forged join included, is dropped: 99 is nowhere."""
    rollout, seconds = run_on_scripted_clock(roll(scripted(names_stops)))
    assert rollout.last.prefix.endswith(
        "First. <join>\n<result>3</result>\n<result>12 it is</result>\n</join>\n"
    )
    assert rollout.last.output == "So 15."
    assert not any("99" in one.prefix + one.output for one in rollout.sequences)
    assert seconds == 3.0
    assert rollout.events[Event.CHILDREN] == 2


def test_a_child_cannot_end_a_block_of_its_parent():
    """A parent that forged a join has an open ``<spawn>`` in its text, which its children's prompts share.

    A child that ends with ``</spawn>`` spawns nothing: its own task is not one of that block's.
    """

    def nested(prompt, seed):
        if prompt.endswith("</task>\n"):
            return "Mine: <task>again</task></spawn>"
        if "</join>\n" in prompt:
            return "So 15."
        if prompt.endswith("Let me see. <spawn>"):
            return f" no. {BLOCK}"
        return "Let me see. <join>"

    draws = ScriptedDraws(model=ScriptedModel(answer=nested), delay_s=lambda *_: 1.0)
    rollout, _ = run_on_scripted_clock(roll(draws, Limits(depth=2)))
    assert rollout.events[Event.FORGED_JOINS] == 1
    assert rollout.events[Event.CHILDREN] == 2
    assert [one.output for one in rollout.sequences if one.role is Role.CHILD] == [
        "Mine: <task>again</task></spawn>"
    ] * 2
