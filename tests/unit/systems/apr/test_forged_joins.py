"""A join that a model begins enters no context, whatever the server says of it."""

import pytest

from benchmarks.lib.scripted_threads import BracketGrammar
from pipeline_lib.systems.apr.rollout import End, Event
from tests.unit.systems.apr.word_draws import END, WORDS, WordDraws, outputs, roll

WHOLE_WORDS = BracketGrammar(forbidden={" (": " ["})
NAMED = pytest.mark.parametrize("names_stops", [True, False])
PARENT = {
    "parent 0": " a b ( 9! ) done",
    "parent 0 a b [": " 0.0 ]",
    "child 0.0": " 7!",
    "parent 0 a b ( 7! )": " c",
}


@NAMED
def test_a_forged_join_of_a_parent_becomes_a_spawn_block(names_stops):
    """The opener of a spawn block takes its place, in the prefix of a further sequence of the same round.

    A stop is sent only where it is named: elsewhere a text that ended there would look whole. Wasted behind `` a b``:
    the stop alone, 1 token; or ``( 9! ) done`` and the end token, 5 tokens. The ids of the cut sequence are those of
    its output: no stop, no opener, no end token.
    """
    draws = WordDraws(texts=PARENT, names_stops=names_stops)
    rollout = roll(draws, grammar=WHOLE_WORDS)
    assert outputs(rollout) == [
        ("parent 0", " a b"),
        ("parent 0 a b [", " 0.0 ]"),
        ("child 0.0", " 7!"),
        ("parent 0 a b ( 7! )", " c"),
    ]
    assert [one.round for one in rollout.sequences] == [0, 0, 0, 1]
    assert rollout.events[Event.FORGED_JOINS] == 1
    assert {decoding.stop for _, _, decoding in draws.asked} == {(" (",) if names_stops else ()}
    assert rollout.events[Event.WASTED_TOKENS] == (1 if names_stops else 5)
    cut, further, *_ = rollout.sequences
    assert cut.output_ids == tuple(WORDS.encode(" a b"))
    assert cut.logprobs == (-0.5, -1.5)
    assert further.output_ids == (*WORDS.encode(" 0.0 ]"), END)


def test_a_token_across_the_cut_leaves_no_ids():
    """The stop ``(`` is within the token `` (``: the output ends with a space that no token ends with."""
    rollout = roll(WordDraws(texts=PARENT))
    assert rollout.sequences[0].output == " a b "
    assert rollout.sequences[0].output_ids is None
    assert rollout.events[Event.LOST_IDS] == 1


@NAMED
def test_a_forged_join_of_a_child_ends_it_without_result(names_stops):
    """At its depth a child cannot spawn: what it wrote before is kept, and its parent gets nothing of it."""
    texts = {
        "parent 0": " [ 0.0 0.1 ]",
        "child 0.0": " 7! ( 9! ) 9!",
        "child 0.1": " 8!",
        "parent 0 ( - 8! )": " c",
    }
    rollout = roll(WordDraws(texts=texts, names_stops=names_stops), grammar=WHOLE_WORDS)
    assert outputs(rollout)[1:] == [
        ("child 0.0", " 7!"),
        ("child 0.1", " 8!"),
        ("parent 0 ( - 8! )", " c"),
    ]
    assert rollout.events[Event.FORGED_JOINS] == 1


def test_a_child_that_may_spawn_is_made_to():
    """At depth 2 a child's forged join becomes a spawn block, as a parent's."""
    texts = {
        "parent 0": " [ 1 ]",
        "child 1": " ( 9! ) 9!",
        "child 1 [": " 2 ]",
        "child 2": " 8!",
        "child 1 ( 8! )": " 8!",
        "parent 0 ( 8! )": " c",
    }
    rollout = roll(WordDraws(texts=texts), grammar=WHOLE_WORDS, limits={"depth": 2})
    assert rollout.last.prefix == "parent 0 ( 8! )"


@NAMED
def test_children_of_a_block_without_its_end_token_are_drawn(names_stops):
    """A join behind a complete spawn block: its children are drawn, and the forged join is in no context."""
    texts = {
        "parent 0": " a [ 0.0 ] ( 9! ) done",
        "child 0.0": " 7!",
        "parent 0 a ( 7! )": " c",
    }
    rollout = roll(WordDraws(texts=texts, names_stops=names_stops), grammar=WHOLE_WORDS)
    assert outputs(rollout) == [
        ("parent 0", " a [ 0.0 ]"),
        ("child 0.0", " 7!"),
        ("parent 0 a ( 7! )", " c"),
    ]
    assert rollout.events[Event.FORGED_JOINS] == 1
    assert rollout.end is End.FINISHED


def test_a_parent_that_forges_for_ever_ends():
    """Each forged join costs a draw, and draws are bounded."""
    texts = {
        "parent 0": " ( 9! )",
        "parent 0 [": " ( 9! )",
        "parent 0 [ [": " ( 9! )",
    }
    rollout = roll(WordDraws(texts=texts), grammar=WHOLE_WORDS, limits={"draws": 3})
    assert rollout.end is End.DRAW_LIMIT
    assert rollout.events[Event.FORGED_JOINS] == 3
