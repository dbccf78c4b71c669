"""The window: limits of draws, joins without room, children that are cut."""

from dataclasses import replace

import pytest

from benchmarks.lib.scripted_threads import BracketGrammar
from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.apr.rollout import End, Event
from pipeline_lib.systems.apr.threads import Child
from tests.unit.systems.apr.word_draws import WordDraws, outputs, roll

TEXTS = {
    "parent 0": " [ 0.0 0.1 ]",
    "child 0.0": " a b c 7!",
    "child 0.1": " 8!",
    "parent 0 ( - 8! )": " c",
    "parent 0 ( 7! 8! )": " c",
}


def limits(draws):
    """The limit of each draw by its prompt."""
    return {prompt: decoding.max_new_tokens for prompt, _, decoding in draws.asked}


def test_a_draw_may_fill_the_window():
    """W = 9: 9 - 2 for the parent and the children, 9 - 6 behind the join; with a start token one less."""
    draws = WordDraws(texts=TEXTS)
    roll(draws, window=9)
    expected = {"parent 0": 7, "child 0.0": 7, "child 0.1": 7, "parent 0 ( 7! 8! )": 3}
    assert limits(draws) == expected
    marked = WordDraws(texts={f"<s> {prompt}": text for prompt, text in TEXTS.items()})
    rollout = roll(marked, window=9, begin="<s> ")
    assert limits(marked) == {f"<s> {prompt}": most - 1 for prompt, most in expected.items()}
    assert all(not one.prefix.startswith("<s>") for one in rollout.sequences)


def test_the_limit_of_a_draw_holds_within_the_window():
    """The smaller of both is sent."""
    draws = WordDraws(texts=TEXTS)
    roll(draws, window=1000)
    assert set(limits(draws).values()) == {100}


def test_a_child_that_is_cut_returns_nothing():
    """W = 7: child 0 ends after 5 tokens, before its end token, and its result does not count."""
    texts = TEXTS | {"child 0.0": " a b c d 7!"}
    rollout = roll(WordDraws(texts=texts), window=7)
    assert outputs(rollout)[1:] == [
        ("child 0.0", " a b c d 7!"),
        ("child 0.1", " 8!"),
        ("parent 0 ( - 8! )", " c"),
    ]
    assert rollout.events[Event.CUT_CHILDREN] == 1


class LongJoins(BracketGrammar):
    """Writes four more words with each join."""

    def join(self, spawn, results):
        return super().join(spawn, results) + " w x y z"


@pytest.mark.parametrize(("window", "end"), [(8, End.JOIN_OVERFLOW), (9, End.FINISHED)])
def test_a_join_without_room_ends_the_rollout(window, end):
    """The join ``p ( 7! ) w x y z`` has 8 words: W = 8 leaves no token behind it; the rest is kept."""
    texts = {"p": " [ 0.0 ]", "child 0.0": " 7!", "p ( 7! ) w x y z": ""}
    rollout = roll(WordDraws(texts=texts), prompt="p", grammar=LongJoins(), window=window)
    overflow = end is End.JOIN_OVERFLOW
    assert rollout.end is end
    assert len(rollout.sequences) == (2 if overflow else 3)
    assert rollout.events[Event.JOIN_OVERFLOWS] == overflow


def test_a_forged_join_without_room_cuts_the_parent():
    """W = 5: the cut text with the opener fills the window. It is no join that has no room."""
    texts = {"parent 0": " a b ( 9! )"}
    rollout = roll(WordDraws(texts=texts), grammar=BracketGrammar(forbidden={" (": " ["}), window=5)
    assert (rollout.end, outputs(rollout)) == (End.CUT, [("parent 0", " a b")])


def test_a_child_whose_prompt_fills_the_window_returns_nothing():
    """W = 5, child x has a prompt of two words; ``y y y y`` one of five: it has no sequence."""
    texts = {"p": " [ x ]", "child x": " 7!", "p ( 7! )": ""}

    class LongPrompts(BracketGrammar):
        def find_spawn(self, text):
            found = super().find_spawn(text)
            return found and replace(
                found, children=[Child(name="x", prompt="y y y y y") for _ in found.children]
            )

    rollout = roll(
        WordDraws(texts=texts | {"p ( - )": ""}), prompt="p", grammar=LongPrompts(), window=5
    )
    assert outputs(rollout) == [("p", " [ x ]"), ("p ( - )", "")]
    assert rollout.events[Event.CUT_CHILDREN] == 1


def test_a_prompt_that_fills_the_window_fails():
    """The error says both numbers."""
    rollout = roll(WordDraws(texts={}), prompt="a b c", window=3)
    assert rollout.error == "a prompt of 3 tokens leaves no room in window=3"


def test_a_window_needs_a_tokenizer():
    """Without it no limit can be computed that vLLM and SGLang accept."""
    with pytest.raises(BadInputError, match="window=9: needs the tokenizer"):
        roll(WordDraws(texts={}), window=9, tokens=None)
