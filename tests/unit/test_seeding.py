"""Child seeds: equal on every machine, different for different names."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.seeding import (
    SEED_BITS,
    child_generator,
    child_random,
    child_seed,
    round_seed,
)

names = st.lists(st.text(max_size=5) | st.integers(), max_size=4).map(tuple)


def test_value_is_pinned():
    """The seed of a name never changes between versions: old runs must stay reproducible.

    sha256("(7, 'sample', 'a', 0)") begins with 0xaae4f0f674aff856; half of it is
    6157116111224044587.
    """
    assert child_seed(7, "sample", "a", 0) == 6157116111224044587


@given(root=st.integers(), path=names)
def test_range(root: int, path: tuple):
    """Every generator takes the seed: it is never negative and has at most 63 bits."""
    assert 0 <= child_seed(root, *path) < 2**SEED_BITS


@given(first=names, second=names)
def test_different_names_give_different_seeds(first: tuple, second: tuple):
    """1 and "1", or ("ab",) and ("a", "b"), are different names."""
    assert (child_seed(7, *first) == child_seed(7, *second)) == (first == second)


def test_each_round_has_a_seed_of_its_own_and_the_first_the_root_seed():
    """Round 1 of seed 7 trains with 7 itself; rounds 2 to 9 with eight further seeds, which never
    change: sha256("(7, 'round', 2)") begins with 0x48515e5ea2d2724d; half of it is 2605525002198006054.
    """
    seeds = [round_seed(7, number) for number in range(1, 10)]
    assert seeds[:2] == [7, 2605525002198006054]
    assert len(set(seeds)) == 9


def test_generators_are_local():
    """Two generators of one name agree and are independent of each other."""
    first, second = child_random(7, "a"), child_random(7, "a")
    drawn = [first.random() for _ in range(3)]
    assert [second.random() for _ in range(3)] == drawn
    assert child_generator(7, "a").random() == child_generator(7, "a").random()
    assert child_generator(7, "a").random() != child_generator(8, "a").random()
