"""The chains of `benchmarks.classmate_chains`: one step is wrong, and falls are counted there."""

from benchmarks.classmate_chains import RANGES, falls, wrong_chain
from pipeline_lib.kinds.countdown import reachable
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.verify.dispatch import Item, open_verifier


def values_after(numbers, step):
    """The values that a step leaves, with its true result."""
    left, _, _ = step.partition("=")
    sign = next(sign for sign in "+-*/" if sign in left)
    one, two = map(int, left.split(sign))
    rest = list(numbers)
    rest.remove(one)
    rest.remove(two)
    true = {"+": one + two, "-": one - two, "*": one * two, "/": one // (two or 1)}[sign]
    return tuple(sorted([*rest, true]))


def test_one_step_is_wrong():
    """Every chain is wrong; the target is reachable before the wrong step, and not after it as it is written."""
    problems = generate(RANGES, seed=3, count=80)
    lines = [wrong_chain(problem, number) for number, problem in enumerate(problems)]
    items = [
        Item(gold=problem.gold, text=line["text"])
        for problem, line in zip(problems, lines, strict=True)
    ]
    with open_verifier(VerifyParams()) as verifier:
        assert not any(verdict.strict for verdict in verifier.judge(items))
    assert [line["wrong_step"] for line in lines] == [1, 2] * 40
    true_steps = 0
    for problem, line in zip(problems, lines, strict=True):
        values = problem.gold.numbers
        for number, step in enumerate(line["text"].split("\n"), start=1):
            if number > line["wrong_step"]:
                break
            after, written = values_after(values, step), int(step.partition("=")[2])
            is_true, leads_on = written in after, problem.gold.target in reachable(after)
            assert (is_true and leads_on) == (number < line["wrong_step"])
            true_steps += is_true and not leads_on
            values = after
    assert 20 <= true_steps <= 40


def test_falls_are_counted_at_the_wrong_step():
    """A fall at the wrong step, a fall at the right one before it, no success at all, no fall."""
    lines = [{"wrong_step": step} for step in (1, 2, 1, 2)]
    success = [[0.5, 0.0, 0.0], [0.5, 0.25, 0.0], [0.0, 0.0, 0.0], [0.25, 0.5, 0.5]]
    rows = [
        {"success": each, "lift": [None, each[1] - each[0], each[2] - each[1]]} for each in success
    ]
    assert falls(lines, rows) == {
        "chains": 4,
        "any success": 3,
        "falls at the wrong step": 2,
        "no step falls further": 2,
        "falls at a right step": 1,
        "right first step": 2,
        "success before the wrong step": 3,
        "success after it": 1,
    }
