"""Countdown: the generator, and disjoint splits."""

import concurrent.futures

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.problems.countdown import generate, problem_key, splits, unseen_number_sets
from tests.unit.countdown_steps import replay


def test_problems_are_distinct_in_range_and_carry_a_true_solution():
    """200 problems: 200 keys, 200 ids, targets in range, and each solution replays to its target."""
    params = CountdownParams(target_low=10, target_high=60)
    problems = generate(params, seed=3, count=200)
    assert len({problem_key(problem) for problem in problems}) == 200
    assert len({problem.id for problem in problems}) == 200
    for problem in problems:
        assert 10 <= problem.gold.target <= 60
        assert list(problem.gold.numbers) == sorted(problem.gold.numbers)
        assert replay(problem.gold.numbers, problem.solution) == [problem.gold.target]


def test_the_seed_decides_and_the_process_does_not():
    """Other processes with other hash seeds draw the same problems; another seed draws others."""
    params = CountdownParams()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda _: generate(params, seed=5, count=50), range(4)))
    assert drawn == [generate(params, seed=5, count=50)] * 4
    assert generate(params, seed=6, count=50) != drawn[0]
    assert drawn[0][0].id == generate(params, seed=5, count=1)[0].id


def test_splits_share_no_problem_and_do_not_look_ahead():
    """Three splits are disjoint, and a larger last one does not change the earlier ones."""
    params = CountdownParams()
    small = splits(params, seed=1, counts={"test": 50, "train": 100, "bootstrap": 100})
    large = splits(params, seed=1, counts={"test": 50, "train": 100, "bootstrap": 900})
    keys = [problem_key(problem) for problems in large.values() for problem in problems]
    assert len(set(keys)) == len(keys) == 1050
    assert (small["test"], small["train"]) == (large["test"], large["train"])


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.sampled_from([0.1, 0.2, 0.5]))
def test_number_sets_of_the_test_split_are_in_no_training_split(seed, share):
    """The numbers of a test problem, in any order and with any target, occur in no other split."""
    params = CountdownParams(high=12, target_low=1, test_number_sets=share)
    drawn = splits(params, seed=seed, counts={"test": 20, "train": 60, "bootstrap": 60})
    training = [*drawn["train"], *drawn["bootstrap"]]
    sets = {tuple(sorted(problem.gold.numbers)) for problem in training}
    assert not sets & {tuple(sorted(problem.gold.numbers)) for problem in drawn["test"]}
    assert unseen_number_sets(drawn["test"], training) == 20


def test_without_reserved_number_sets_the_splits_share_them():
    """Share 0: two numbers up to 4 make 10 sets, so 8 test and 12 train problems share some."""
    params = CountdownParams(num_numbers=2, high=4, target_low=1, test_number_sets=0)
    drawn = splits(params, seed=3, counts={"test": 8, "train": 12})
    shared = {p.gold.numbers for p in drawn["test"]} & {p.gold.numbers for p in drawn["train"]}
    seen = sum(problem.gold.numbers in shared for problem in drawn["test"])
    assert seen > 0
    assert unseen_number_sets(drawn["test"], drawn["train"]) == 8 - seen


def test_too_small_a_space_is_bad_input():
    """Two numbers of 1..2 with target 2 make two problems (1*2, 1+1), plus 2: 2*1; not five."""
    params = CountdownParams(num_numbers=2, low=1, high=2, target_low=2, target_high=2)
    assert len(generate(params, seed=1, count=2)) == 2
    with pytest.raises(BadInputError, match=r"5 distinct problems.*hold about 2;.*widen"):
        generate(params, seed=1, count=5)
