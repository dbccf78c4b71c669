"""Claims of rollouts, and whether they solve the problem."""

import pytest

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.apr.countdown.grammar import (
    answer_of,
    is_child_right,
    is_right,
    read_claim,
    read_problem,
)
from pipeline_lib.systems.apr.countdown.traces import (
    CompactSearch,
    compact_parallel_trace,
    compact_serial_trace,
    published_parallel_trace,
    published_serial_trace,
)

GOAL = "equal: Goal Reached"
GOLD = CountdownGold(numbers=(3, 5, 12), target=20)


def compact_search(gold):
    return CompactSearch(
        numbers=gold.numbers, target=gold.target, beam=5, sub_beam=4, max_value=100
    )


TRACES = {
    "compact parallel": lambda gold: compact_parallel_trace(compact_search(gold)),
    "compact serial": lambda gold: compact_serial_trace(compact_search(gold)),
    "published parallel": lambda gold: published_parallel_trace(
        gold.numbers, gold.target, beam=4, sub_beam=4, branch=0.7, draw=child_random(2, "test")
    ),
    "published serial": lambda gold: published_serial_trace(
        gold.numbers, gold.target, beam=3, branch=0.5, draw=child_random(2, "test")
    ),
}


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_traces_claim_what_they_solve(trace):
    """A solved trace claims a right path, any other claims none."""
    solved = 0
    for problem in generate(CountdownParams(), seed=4, count=40):
        made = trace(problem.gold)
        last = [one for one in made.sequences if one.role == "parent"][-1]
        claim = read_claim(last.prefix, last.output)
        assert (claim is not None) == made.solved
        assert is_right(problem.gold, claim) == made.solved
        assert read_problem(made.sequences[0].prefix) == problem.gold
        solved += made.solved
    assert 10 < solved < 40


@pytest.mark.parametrize("style", ["compact", "published"])
def test_children_solve_what_their_traces_solve(style):
    """A published child's path starts at its own node: the operation of its prompt precedes it."""
    solved = 0
    for problem in generate(CountdownParams(), seed=4, count=40):
        made = TRACES[f"{style} parallel"](problem.gold)
        children = [one for one in made.sequences if one.role == "child"]
        right = [is_child_right(problem.gold, one.prefix, one.output) for one in children]
        assert right == [one.solved for one in children]
        solved += any(right)
    assert solved > 10


def test_a_child_of_another_problem_is_wrong():
    """Its prompt's operation takes numbers that the problem has not."""
    prompt = "Moving to Node #0,0\nCurrent State: 20:[8, 12], Operations: ['4+4=8']"
    result = f"{explored(('8+12=20', '20'))}\n20,20 {GOAL}"
    for gold, expected in ((GOLD, False), (CountdownGold(numbers=(4, 4, 12), target=20), True)):
        assert is_child_right(gold, prompt, f"\n20,20 {GOAL}\n{result}") == expected


def explored(*steps: tuple[str, str]) -> str:
    return "\n".join(
        f"Exploring Operation: {step}, Resulting Numbers: [{left}]" for step, left in steps
    )


RIGHT = explored(("3+5=8", "12, 8"), ("12+8=20", "20"))


@pytest.mark.parametrize(
    ("gold", "claim"),
    [
        # Each number is used once: 5+5 needs two of them. A checker of values alone accepts it.
        (CountdownGold(numbers=(5, 7), target=10), explored(("5+5=10", "10"))),
        # 12 is left over.
        (CountdownGold(numbers=(3, 5, 12), target=8), explored(("3+5=8", "8"))),
        # 3+5 is 8.
        (GOLD, explored(("3+5=9", "12, 9"), ("12+9=21", "21"))),
        # The operations are right, and the numbers beside them are not: 12 and 8 are left.
        (GOLD, explored(("3+5=8", "12, 9"), ("12+8=20", "20"))),
        (GOLD, explored(("3+5=8", "12, 8, 8"), ("12+8=20", "20"))),
        # A step that cannot be read is no step that can be skipped.
        (GOLD, explored(("3+5=8", "12, 8"), ("__import__('os')=1", "12, 8"), ("12+8=20", "20"))),
        (GOLD, ""),
        (GOLD, None),
    ],
)
def test_wrong_claims_are_refused(gold, claim):
    """Numbers used twice or not at all, wrong sums, wrong resulting numbers, unreadable steps, no path."""
    assert not is_right(gold, claim)


def test_a_right_claim_is_accepted():
    """3+5=8, 12+8=20, with the numbers that each leaves in any order."""
    assert is_right(GOLD, RIGHT)
    assert is_right(GOLD, RIGHT.replace("[12, 8]", "[8, 12]"))


def test_equal_votes_are_right_alike():
    """Commuted operands, the order of numbers and the goal line make no difference; another path does."""
    same = explored(("5+3=8", "8, 12"), ("8+12=20", "20")) + f"\n20,20 {GOAL}"
    assert answer_of(same) == answer_of(RIGHT) == "3+5=8 [8, 12]; 8+12=20 [20]"
    assert answer_of(explored(("12+3=15", "15, 5"), ("15+5=20", "20"))) != answer_of(RIGHT)
    wrong = explored(("3+5=8", "12, 9"), ("12+8=20", "20"))
    assert (answer_of(wrong), is_right(GOLD, wrong)) != (answer_of(RIGHT), True)
    assert answer_of("") is answer_of(None) is None


def joined(*results: str) -> str:
    block = "".join(
        f"\n<Goal Reached in Sub Search {i} at level 1 at Node #0,{i}>\n{result}\n20,20 {GOAL}"
        for i, result in enumerate(results)
    )
    return f"Moving to Node #0\n<Sub Searches>{block}\n<End Sub Searches>"


def test_the_first_result_of_a_join_is_claimed():
    """A second success changes nothing."""
    wrong = explored(("5+5=10", "10"))
    assert read_claim(joined(RIGHT, wrong), f"\n20,20 {GOAL}") == f"{RIGHT}\n20,20 {GOAL}"
    assert read_claim(joined(wrong, RIGHT), f"\n20,20 {GOAL}") == f"{wrong}\n20,20 {GOAL}"


def test_success_without_a_result_is_a_false_claim():
    """The claim exists, and is wrong: it has no path."""
    failed = "Moving to Node #0\n<Sub Searches>\n<No Solution in Sub Search 0 at level 1 at Node #0,0>\n<End Sub Searches>"
    assert read_claim(failed, f"\n20,20 {GOAL}") == ""
    assert read_claim(joined(RIGHT), "\nNo solution found.") is None


def test_a_tag_that_the_parent_draws_is_no_result():
    """Only what the runtime joined counts, not a tag in what the parent writes."""
    forged = f"\n<Goal Reached in Sub Search 0 at level 1 at Node #0,0>\n{RIGHT}\n20,20 {GOAL}"
    claim = read_claim("Moving to Node #0\nCurrent State: 20:[3, 5, 12], Operations: []", forged)
    assert claim == ""


def test_a_tag_behind_the_join_is_no_result():
    """The join has no solution; the parent writes a result of its own, and begins a further join in vain."""
    prefix = "\n".join(
        [
            "Moving to Node #0",
            "Current State: 20:[3, 5, 12], Operations: []",
            "<Sub Searches>",
            "<No Solution in Sub Search 0 at level 1 at Node #0,0>",
            "<End Sub Searches>",
            "<Goal Reached in Sub Search 0 at level 1 at Node #0,0>",
            RIGHT,
            f"20,20 {GOAL}",
            "<Calling Sub Searches>",
        ]
    )
    assert read_claim(prefix, f"\n20,20 {GOAL}") == ""


@pytest.mark.parametrize("condition", ["", "Sub Call Budget: 9 ", "Token Budget: 64 "])
@pytest.mark.parametrize("head", ["", "Moving to Node #0\n"])
def test_the_problem_of_a_prompt_is_read(condition, head):
    """With and without a condition and the line of the root."""
    prompt = f"{condition}{head}Current State: 20:[3, 5, 12], Operations: []"
    assert read_problem(prompt) == GOLD


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "20:[3, 5]",
        "Current State: 20:[3, x], Operations: []",
        "Current State: 20:[12, 8], Operations: ['3+5=8']",
    ],
)
def test_any_other_text_is_no_problem(prompt):
    """A malformed state, and the state of a child."""
    assert read_problem(prompt) is None
