"""Generated word problems: their solutions calculate the answer, and splits share what they may."""

import re
from collections import Counter

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import PrepareParams, VerifyParams, WordProblemParams
from pipeline_lib.problems.splits import make_splits
from pipeline_lib.problems.word_problems import splits, templates
from pipeline_lib.verify.dispatch import Item, open_verifier

COUNTS = {"test": 150, "train": 400, "bootstrap": 60}
CALCULATION = re.compile(r"(\d+)([-+*/])(\d+)=<<\1\2\3=(\d+)>>\4\b")
CALCULATE = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
}


@pytest.fixture(scope="module")
def drawn():
    return splits(WordProblemParams(), seed=3, counts=COUNTS)


def template_of(problem):
    return problem.id.removeprefix("word-problems-").partition("-")[0]


def test_each_step_is_calculated_from_the_question(drawn):
    """Every number of the question is used once; each step is right; the last result is the gold."""
    for problem in drawn["train"]:
        steps = CALCULATION.findall(problem.solution)
        assert len(steps) == problem.solution.count("<<") == int(template_of(problem)[0])
        inputs = [int(number) for number in re.findall(r"\d+", problem.question)]
        for left, sign, right, result in steps:
            assert CALCULATE[sign](int(left), int(right)) == int(result)
            for number in (int(left), int(right)):
                if number in inputs:
                    inputs.remove(number)
        assert not inputs, problem
        assert problem.solution.endswith(f"\n#### {problem.gold.answer}")
        assert problem.gold.answer == steps[-1][3]
        assert "{" not in problem.question + problem.solution


def test_solutions_are_judged_right(drawn):
    """In the requested format, by the verifier."""
    items = [
        Item(gold=problem.gold, text=text)
        for problem in drawn["test"][:40]
        for text in problem.kind.solution_texts(problem.gold, problem.solution)
    ]
    with open_verifier(VerifyParams()) as verifier:
        assert {verdict.strict for verdict in verifier.judge(items)} == {True}


def test_no_two_splits_share_template_and_numbers(drawn):
    """Ids are made of both."""
    ids = [problem.id for problems in drawn.values() for problem in problems]
    assert len(set(ids)) == len(ids) == sum(COUNTS.values())


def test_splits_have_the_same_mixture_of_templates(drawn):
    """Each of 40 templates has its share of every split, up to one problem and repeated draws."""
    names = [name for steps in (1, 2) for name in templates(steps)]
    for split, problems in drawn.items():
        counts = Counter(map(template_of, problems))
        assert max(counts[name] for name in names) - min(counts[name] for name in names) <= 3, split


def test_the_first_problems_are_of_different_templates(drawn):
    """The worked examples of a prompt are the first problems: not three of the same kind."""
    for problems in drawn.values():
        assert len({template_of(problem) for problem in problems[:40]}) > 35


def test_a_split_by_template():
    """With a quarter reserved, templates of the test problems occur in no other split, for each length."""
    drawn = splits(WordProblemParams(test_templates=0.25), seed=3, counts=COUNTS)
    held_out = {template_of(problem) for problem in drawn["test"]}
    trained = {template_of(p) for name in ("train", "bootstrap") for p in drawn[name]}
    assert not held_out & trained
    assert len(held_out) == 10
    assert {name[0] for name in held_out} == {"1", "2"}


def test_one_step_alone():
    """No template of two steps."""
    drawn = splits(WordProblemParams(steps=(1,)), seed=3, counts={"test": 50})
    assert {template_of(problem)[0] for problem in drawn["test"]} == {"1"}


def test_sizes_do_not_change_earlier_splits(drawn):
    """The test problems are the same with more training problems; another seed has others."""
    more = splits(WordProblemParams(), seed=3, counts={"test": 150, "train": 900})
    assert more["test"] == drawn["test"]
    assert more["train"][:400] == drawn["train"]
    other = splits(WordProblemParams(), seed=4, counts={"test": 150})
    assert other["test"] != drawn["test"]


def test_no_template_left_is_bad_input():
    """The message names the param, also if one number of steps alone has none left."""
    for share in (0.01, 0.03):
        with pytest.raises(
            BadInputError, match=rf"test_templates={share}: .* of 2 steps|of 1 steps"
        ):
            splits(WordProblemParams(test_templates=share), seed=3, counts={"test": 5})


def test_unseen_templates_are_counted():
    """Each template has its turn in 100 training problems, unless some are reserved."""
    for share, unseen in ((0.0, 0), (0.3, 10)):
        params = PrepareParams(
            dataset="word-problems",
            train_problems=100,
            test_problems=10,
            word_problems=WordProblemParams(test_templates=share),
        )
        made = make_splits(params, seed=3, gold_problem=lambda _: None)
        assert made.report.unseen_templates == unseen
