"""Parents with children on a scripted clock: order, bound, seeds, failures, windows, forged joins."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.apr_scheduler import measure
from benchmarks.lib.scripted_draws import run_on_scripted_clock
from benchmarks.lib.scripted_threads import (
    BracketGrammar,
    scripted_draws,
    scripted_roots,
    scripted_runtime,
)
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.systems.apr.scheduler import run_rollouts
from pipeline_lib.systems.apr.threads import Child, End, Event, Role, Root
from tests.unit.systems.apr.word_draws import END, WORDS, WordDraws, outputs, roll

PARENTS = 1000
FEWER = 250


def drawn(draws, *, bound=64, roots=None):
    """The rollouts, and the seconds on the clock."""

    async def run():
        runtime = scripted_runtime(draws, bound=bound)
        return await run_rollouts(runtime, roots or scripted_roots(PARENTS))

    return run_on_scripted_clock(run())


@pytest.fixture(scope="module")
def large():
    """1,000 parents with up to 15 children each, random delays and failures."""
    draws = scripted_draws()
    rollouts, _ = drawn(draws)
    return draws, rollouts


def test_rollouts_and_results_are_in_order(large):
    """Rollout i is of parent i, and each join has the result of child n at place n."""
    _, rollouts = large
    assert [one.root for one in rollouts] == scripted_roots(PARENTS)
    joined = [one for one in rollouts if one.error is None and one.last.round]
    assert len(joined) > PARENTS / 2
    for rollout in joined:
        name = rollout.root.problem_id
        _, _, block = rollout.last.prefix.partition(" ( ")
        results = block.removesuffix(" )").split(" ")
        assert len(results) == rollout.events[Event.CHILDREN]
        for place, result in enumerate(results):
            assert result in {"-", f"{name}.{place}!"}


def test_no_child_is_lost_or_drawn_twice(large):
    """Each child that a parent's text names is drawn once; its sequence is there unless its draw failed."""
    draws, rollouts = large
    assert set(draws.drawn.values()) == {1}
    named = Counter()
    for rollout in rollouts:
        children = [one for one in rollout.sequences if one.role is Role.CHILD]
        if rollout.error is None:
            assert (
                len(children) + rollout.events[Event.FAILED_CHILDREN]
                == (rollout.events[Event.CHILDREN])
            )
            assert [one.child for one in children] == sorted({one.child for one in children})
        named["children"] += rollout.events[Event.CHILDREN]
        named["parents"] += rollout.cost.calls - rollout.events[Event.CHILDREN]
    assert draws.drawn.total() == named.total()
    assert named["children"] == sum(prompt.startswith("child") for prompt in draws.drawn)


def test_failures_are_counted(large):
    """3 % of the draws fail: parents are failed rollouts without sequences, children are no solution."""
    _, rollouts = large
    failed = [one for one in rollouts if one.end is End.FAILED]
    assert 20 < len(failed) < 100
    for rollout in failed:
        assert (rollout.sequences, rollout.error) == ((), "the script gave no answer")
    assert sum(one.cost.failed_calls for one in rollouts) == len(failed) + sum(
        one.events[Event.FAILED_CHILDREN] for one in rollouts
    )


@pytest.mark.parametrize("bound", [1, 7, 300])
def test_the_bound_is_kept_and_used(bound):
    """Of 60 parents and their children, as many draw at once as are allowed, or as there are."""
    draws = scripted_draws()
    drawn(draws, bound=bound, roots=scripted_roots(60))
    assert draws.most_in_flight == bound if bound < 60 else 60 <= draws.most_in_flight <= bound


@pytest.mark.parametrize(("parents", "bound"), [(FEWER, 16), (PARENTS, 256), (FEWER, 1024)])
def test_the_makespan_is_near_its_lower_bound(parents, bound):
    """At most 1.15 times the longest chain, or all work over the bound, whichever is longer."""
    assert 1.0 <= measure(parents, bound)["ratio"] <= 1.15


def test_results_do_not_depend_on_the_bound(large):
    """Seeds follow from the place in the tree, not from the order in which draws end."""
    _, rollouts = large
    assert drawn(scripted_draws(), bound=5, roots=scripted_roots(FEWER))[0] == rollouts[:FEWER]


def test_twins_of_a_prompt_have_seeds_of_their_own():
    """Two samples of a problem, two problems with one prompt, two children of one name: six seeds."""
    texts = {"parent 0": " [ 0.0 0.0 ]", "child 0.0": " none", "parent 0 ( - - )": " done"}
    draws = WordDraws(texts=texts)
    roots = [
        Root(problem_id=name, sample=sample, prompt="parent 0")
        for name, sample in (("a", 0), ("a", 1), ("b", 0))
    ]

    async def run():
        return await run_rollouts(scripted_runtime(draws, bound=20), roots)

    rollouts, _ = run_on_scripted_clock(run())
    seeds = [seed for _, seed, _ in draws.asked]
    assert len(set(seeds)) == len(seeds) == 3 * 4
    assert [one.root for one in rollouts] == roots


def test_cancellation_reaches_all_draws():
    """After 20 s the task is cancelled: no draw stays open, and none begins later."""
    draws = scripted_draws()

    async def run():
        runtime = scripted_runtime(draws, bound=64)
        task = asyncio.create_task(run_rollouts(runtime, scripted_roots(FEWER)))
        await asyncio.sleep(20)
        assert draws.in_flight == 64
        task.cancel()
        await asyncio.wait([task])
        begun = draws.drawn.total()
        await asyncio.sleep(100)
        return task.cancelled(), draws.drawn.total() - begun

    assert run_on_scripted_clock(run())[0] == (True, 0)
    assert (draws.in_flight, draws.cancelled) == (0, 64)


def test_a_lost_engine_ends_the_run():
    """An error of the engine itself, which no draw survives, is raised as it is."""

    class Gone(WordDraws):
        async def draw(self, prompt, seed, decoding):
            if prompt == "child 0.1":
                raise ReasonloopError("the engine is gone")
            return await super().draw(prompt, seed, decoding)

    texts = {"parent 0": " [ 0.0 0.1 ]", "child 0.0": " none"}
    with pytest.raises(ReasonloopError, match="the engine is gone"):
        roll(Gone(texts=texts))


def test_failed_and_unknown_children_are_no_solution():
    """Child 0 fails, ? is unknown, child 2 has a result: the join has it alone, at its place."""
    texts = {
        "parent 0": " [ 0.0 ? 0.2 ]",
        "child 0.0": None,
        "child 0.2": " 7!",
        "parent 0 ( - - 7! )": " done",
    }
    rollout = roll(WordDraws(texts=texts))
    assert outputs(rollout) == [
        ("parent 0", " [ 0.0 ? 0.2 ]"),
        ("child 0.2", " 7!"),
        ("parent 0 ( - - 7! )", " done"),
    ]
    assert [(one.role, one.round, one.child) for one in rollout.sequences] == [
        (Role.PARENT, 0, None),
        (Role.CHILD, 0, 2),
        (Role.PARENT, 1, None),
    ]
    counted = {Event.CHILDREN: 3, Event.FAILED_CHILDREN: 1, Event.UNKNOWN_CHILDREN: 1}
    assert +rollout.events == counted


def test_the_first_success_cancels_its_siblings():
    """Draws take 1 s each; child 0 has a result at 2 s, child 1 would go on: it is cancelled."""
    texts = {
        "parent 0": " [ 0.0 0.1 ]",
        "child 0.0": " 7!",
        "child 0.1": " [ 1.0 ]",
        "child 1.0": " 8!",
        "child 0.1 ( 8! )": " 8!",
        "parent 0 ( 7! - )": " done",
    }
    rollout = roll(WordDraws(texts=texts), first_success=True, limits={"depth": 2})
    assert rollout.last.prefix == "parent 0 ( 7! - )"
    assert rollout.events[Event.CANCELLED_CHILDREN] == 1
    # With end tokens 5, then 2 and 2 at once, then 2; the 2 of child 0.1 are in no sequence.
    assert (rollout.cost.completion_tokens, rollout.cost.critical_tokens) == (11, 9)
    assert rollout.events[Event.DROPPED_TOKENS] == 2


def test_all_that_a_failed_child_drew_is_dropped():
    """Child 0.0 draws 4 tokens and its own child 2, each with an end token; then it fails."""
    texts = {
        "parent 0": " [ 0.0 ]",
        "child 0.0": " [ 1.0 ]",
        "child 1.0": " 8!",
        "child 0.0 ( 8! )": None,
        "parent 0 ( - )": " done",
    }
    rollout = roll(WordDraws(texts=texts), limits={"depth": 2})
    assert rollout.events[Event.DROPPED_TOKENS] == 4 + 2
    assert rollout.total_tokens > rollout.cost.completion_tokens - 6


def test_a_cancelled_draw_costs_as_much_as_the_success_and_holds_no_tokens():
    """Child 0.1 never ends: it counts 2 tokens, and the segment behind the join has 4 of the limit of 11."""
    texts = {
        "parent 0": " [ 0.0 0.1 ]",
        "child 0.0": " 7!",
        "child 0.1": None,
        "parent 0 ( 7! - )": " all done now",
    }
    decoding = Decoding(max_new_tokens=5)
    rollout = roll(Stuck(texts=texts), first_success=True, decoding=decoding, limits={"tokens": 11})
    assert rollout.last.output == " all done now"
    assert rollout.cost.completion_tokens == 5 + 2 + 2 + 4


class Stuck(WordDraws):
    """Draws that would fail never end instead."""

    async def draw(self, prompt, seed, decoding):
        if self.texts[prompt] is None:
            await asyncio.Future()
        return await super().draw(prompt, seed, decoding)


def test_children_beyond_the_limit_are_not_drawn():
    """Of three children with a limit of two, the third is no solution."""
    texts = {
        "parent 0": " [ 0.0 0.1 0.2 ]",
        "child 0.0": " 7!",
        "child 0.1": " none",
        "parent 0 ( 7! - - )": " done",
    }
    rollout = roll(WordDraws(texts=texts), limits={"children": 2})
    assert rollout.last.output == " done"
    assert rollout.events[Event.EXCESS_CHILDREN] == 1


@pytest.mark.parametrize(("depth", "result"), [(1, "-"), (2, "8!")])
def test_children_spawn_up_to_the_depth(depth, result):
    """A child's own spawn block is joined at depth 2; at depth 1 it is text, and no solution."""
    texts = {
        "parent 0": " [ 1 ]",
        "child 1": " [ 2 3 ]",
        "child 2": " none",
        "child 3": " 8!",
        "child 1 ( - 8! )": " 8!",
        f"parent 0 ( {result} )": " done",
    }
    rollout = roll(WordDraws(texts=texts), limits={"depth": depth})
    assert rollout.last.output == " done"
    assert len(rollout.sequences) == (3 if depth == 1 else 6)


def test_a_thread_that_spawns_for_ever_ends():
    """With a limit of two draws the parent ends after its second spawn block, without a third draw."""
    texts = {
        "parent 0": " [ 1 ]",
        "child 1": " none",
        "parent 0 ( - )": " [ 1 ]",
        "parent 0 ( - ) ( - )": " [ 1 ]",
    }
    rollout = roll(WordDraws(texts=texts), limits={"draws": 2})
    assert (rollout.end, rollout.last.round) == (End.DRAW_LIMIT, 1)


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
    rollout = roll(marked, window=9, wire=lambda text: f"<s> {text}")
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
