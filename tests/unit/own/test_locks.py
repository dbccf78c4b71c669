"""The shipped task of locks: its checks by hand, honest tries, held-out locks."""

import itertools

import pytest

from pipeline_lib.own import locks
from pipeline_lib.own.code import TASKS, find_source
from pipeline_lib.problems.own_task import task_of

LOCK = (5, 0, 7, 10)
"""Dial 2: 4 + 5 = 9, 81 mod 11 = 4, 16 + 7 = 23 mod 11 = 1, 1 + 10 = 0 mod 11. Dial 0: 5, 25 = 3, 16 = 5, 35 = 2."""
ANSWER = [LOCK] * 3


def text(*tries: str) -> str:
    """Tries of lock A, each on one of the three locks."""
    return " ".join(one.replace("A", name) for name, one in zip("ABC", tries, strict=True))


OPEN, SHUT = "A A2 A1=9 A2=4 A3=1 A!2", "A A0 A1=5 A2=3 A3=5 A4=2"


@pytest.mark.parametrize(
    ("tried", "true", "claims", "right"),
    [
        (OPEN, 1.0, True, True),
        (SHUT, 1.0, False, False),
        ("A A2 A1=9 A2=4 A3=1 A4=0", 0.75, False, True),  # the last value is never written as 0
        ("A A0 A1=5 A2=3 A3=5 A!0", 0.75, True, False),  # 2 is no 0
        ("A A2 A1=9 A2=4 A3=1 A!3", 0.75, True, True),  # another dial
        ("A A2 A1=8 A2=4 A3=1 A!2", 0.5, True, True),  # 8, and 64 = 9 mod 11 is no 4
    ],
)
def test_each_part_is_checked(tried, true, claims, right):
    """Values follow from the values before them, as they are stated."""
    first, *_ = locks.parts(ANSWER, text(tried, OPEN, OPEN))
    assert first == {
        "text": tried,
        "formed": True,
        "true": true,
        "claims": claims,
        "right": right,
    }
    assert locks.verify(ANSWER, text(tried, OPEN, OPEN)) is (tried == OPEN)


@pytest.mark.parametrize("bad", ["", OPEN, text(OPEN, OPEN, OPEN) + " A", "A A99 B C", "A\nB\nC"])
def test_what_is_no_answer_has_no_part_that_is_right(bad):
    """And no vote."""
    assert [one["right"] for one in locks.parts(ANSWER, bad)] == [False] * 3
    assert not locks.verify(ANSWER, bad)
    assert locks.answer(bad) is None


def test_a_vote_counts_dials():
    """Whatever the values are, and however the lines are broken."""
    assert locks.answer(text(OPEN, SHUT, OPEN).replace(" B ", "\nB ")) == "2 0 2"


def test_checks_of_the_task():
    """`reasonloop task check locks`."""
    found = [*locks.validate()]
    assert len({is_right for _, _, is_right in found}) == 2
    for problem, answer, is_right in found:
        assert locks.verify(problem["answer"], answer) is is_right


def test_tries_are_honest_and_test_locks_are_held_out():
    """All eleven dials of each lock; 1 to 4 of them open; the worked solution is right."""
    train = [*itertools.islice(locks.problems("train", 1), 300)]
    test = [*itertools.islice(locks.problems("test", 1), 300)]
    seen = {lock for problem in train for lock in problem["answer"]}
    assert not seen & {lock for problem in test for lock in problem["answer"]}
    assert all("tries" not in problem for problem in test)
    for problem in train:
        assert locks.verify(problem["answer"], problem["solution"])
        for lock, part in zip(problem["answer"], problem["tries"], strict=True):
            found = [locks.checked(lock, f"{choice} {rest}") for choice, rest, _ in part]
            assert all(one["true"] == 1 for one in found)
            assert [one["right"] for one in found] == [right for *_, right in part]
            assert 1 <= sum(one["right"] for one in found) <= 4


def test_it_is_known_by_name():
    """As an entry point of `reasonloop.tasks` is."""
    assert task_of("locks") == find_source("pipeline_lib.own.locks", key="task", group=TASKS)
