"""Parents with children on a scripted clock: order, bound, seeds, failures, cancellation, depth."""

import asyncio
from collections import Counter

import pytest

from benchmarks.apr_scheduler import measure
from benchmarks.lib.scripted_draws import run_on_scripted_clock
from benchmarks.lib.scripted_threads import scripted_draws, scripted_roots, scripted_runtime
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.systems.apr.rollout import End, Event, Role, Root
from pipeline_lib.systems.apr.scheduler import run_rollouts
from tests.unit.systems.apr.word_draws import WordDraws, outputs, roll

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
