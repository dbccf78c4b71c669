"""Spawn blocks, results and joins of both styles."""

import pytest

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.records import FinishReason
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.compact import CompactSearch
from pipeline_lib.systems.apr.countdown.compact import parallel_trace as compact_trace
from pipeline_lib.systems.apr.countdown.grammar import CountdownGrammar
from pipeline_lib.systems.apr.countdown.published import parallel_trace as published_trace
from pipeline_lib.systems.apr.countdown.tokens import make_tokenizer
from pipeline_lib.systems.apr.draw_text import TextTokens, keep
from pipeline_lib.systems.apr.threads import Child

COMPACT = CountdownGrammar(style="compact")
PUBLISHED = CountdownGrammar(style="published")
PROBLEMS = [((3, 5, 12), 20), ((3, 5, 12), 27), ((4, 9, 17), 31), ((2, 8, 19), 35)]


def compact(numbers, target):
    return compact_trace(
        CompactSearch(numbers=numbers, target=target, beam=5, sub_beam=4, max_value=100)
    )


def published(numbers, target):
    return published_trace(
        (*numbers, 7), target, beam=4, sub_beam=3, branch=1.0, draw=child_random(5, "test", target)
    )


@pytest.mark.parametrize(("grammar", "trace"), [(COMPACT, compact), (PUBLISHED, published)])
@pytest.mark.parametrize(("numbers", "target"), PROBLEMS)
def test_a_trace_follows_from_its_own_texts(grammar, trace, numbers, target):
    """Prompts of the children and the parent's text after the join are those of the trace."""
    first, *children, last = trace(numbers, target).sequences
    spawn = grammar.find_spawn(first.prefix + first.output)
    assert spawn is not None
    assert [child.prompt for child in spawn.children] == [child.prefix for child in children]
    results = [grammar.read_result(child.output) for child in children]
    assert [result is not None for result in results] == [child.solved for child in children]
    assert grammar.join(spawn, results) == last.prefix
    assert grammar.find_spawn(last.prefix + last.output) is None


def spawning(*started: str, before: str = "Exploring Operation: 3+5=8, Resulting Numbers: [12, 8]"):
    head = "Moving to Node #0\nCurrent State: 20:[3, 5, 12], Operations: []"
    return "\n".join([head, before, lines.CALL, *started, lines.END_CALL])


START = "<Start Sub Search 0 at level 1> Moving to Node #"


def test_a_node_that_is_not_defined_has_no_prompt():
    """One operation is listed, so node 0,1 is unknown; so is a node of another root, and no node at all."""
    spawn = COMPACT.find_spawn(spawning(f"{START}0,0", f"{START}0,1", f"{START}3,1", "nonsense"))
    assert spawn is not None
    assert [child.name for child in spawn.children] == ["0,0", "0,1", "?", "?"]
    assert spawn.children[1:] == [Child(name=name, prompt=None) for name in ("0,1", "?", "?")]
    joined = COMPACT.join(spawn, [None] * 4)
    assert joined.endswith(
        "<No Solution in Sub Search 3 at level 1 at Node #?>\n<End Sub Searches>"
    )


def test_a_malformed_operation_keeps_its_place():
    """Child 1 is the second operation, whether or not the first can be read; the first has no prompt."""
    before = (
        "Exploring Operation: 3+5, Resulting Numbers: [12, 8]\n"
        "Exploring Operation: 5*12=60, Resulting Numbers: [3, 60]"
    )
    spawn = COMPACT.find_spawn(spawning(f"{START}0,0", f"{START}0,1", before=before))
    assert spawn is not None
    assert [child.prompt for child in spawn.children] == [
        None,
        "Moving to Node #0,1\nCurrent State: 20:[3, 60], Operations: ['5*12=60']",
    ]


@pytest.mark.parametrize(
    ("condition", "inherited"),
    [("Token Budget: 64 ", "Token Budget: 64 "), ("Sub Call Budget: 1 ", ""), ("", "")],
)
def test_children_inherit_a_token_budget_only(condition, inherited):
    """A budget of tokens holds for each sequence, a budget of children for the parent."""
    spawn = COMPACT.find_spawn(condition + spawning(f"{START}0,0"))
    assert spawn is not None
    assert spawn.children[0].prompt == (
        f"{inherited}Moving to Node #0,0\nCurrent State: 20:[12, 8], Operations: ['3+5=8']"
    )
    assert spawn.before.startswith(condition)


@pytest.mark.parametrize(
    "text",
    [
        spawning(f"{START}0,0") + "\nNo solution found.",
        spawning(f"{START}0,0").removesuffix(lines.END_CALL),
        f"Moving to Node #0\n{lines.END_CALL}",
        "",
    ],
)
def test_a_text_that_does_not_end_with_a_block_spawns_nothing(text):
    """Text behind the block, a block without its end, an end without a block."""
    assert COMPACT.find_spawn(text) is None


def test_a_result_needs_two_lines_of_success():
    """Tags of a join contain `Goal Reached`, and do not count."""
    one = "\n<Goal Reached in Sub Search 0 at level 1 at Node #0,0>\n20,20 equal: Goal Reached"
    assert COMPACT.read_result(one) is None
    two = "\n20,20 equal: Goal Reached\nExploring Operation: 8+12=20, Resulting Numbers: [20]\n20,20 equal: Goal Reached"
    assert COMPACT.read_result(two) == (
        "Exploring Operation: 8+12=20, Resulting Numbers: [20]\n20,20 equal: Goal Reached"
    )


def test_a_result_with_a_tag_is_none():
    """A child cannot write the tag of its sibling into the join."""
    forged = (
        "\n20,20 equal: Goal Reached\n<Goal Reached in Sub Search 1 at level 1 at Node #0,1>\n"
        "20,20 equal: Goal Reached"
    )
    assert COMPACT.read_result(forged) is None


def test_a_drawn_join_becomes_a_spawn():
    """The start of a join is forbidden, and the start of a spawn block takes its place."""
    assert dict(COMPACT.forbidden) == {
        "\n<Sub Searches>": "\n<Calling Sub Searches>",
        "<Sub Searches>": "<Calling Sub Searches>",
    }


def test_the_cut_before_a_drawn_join_keeps_the_ids():
    """The line feed before a join is part of its token: a cut behind it would be within the token."""
    tokenizer = make_tokenizer(3)
    written = "\nNo solution found."
    ids = tuple(tokenizer.encode(f"{written}\n<Sub Searches>\n").ids)
    completion = Completion(
        text=f"{written}\n<Sub Searches>\n",
        finish_reason=FinishReason.STOP,
        prompt_tokens=0,
        completion_tokens=len(ids),
        logprob=None,
        token_ids=ids,
    )
    tokens = TextTokens(encode=lambda text: tokenizer.encode(text).ids, decode=tokenizer.decode)
    kept = keep(completion, COMPACT, tokens)
    assert (kept.output, kept.forged) == (written, "\n<Sub Searches>")
    assert kept.ids == tuple(tokenizer.encode(written).ids)


def test_a_number_of_any_length_is_no_node():
    """Digits without end are refused by the pattern, before they are read as a number."""
    spawn = COMPACT.find_spawn(spawning(f"{START}0,{'9' * 5000}"))
    assert spawn is not None
    assert spawn.children[0].prompt is None
