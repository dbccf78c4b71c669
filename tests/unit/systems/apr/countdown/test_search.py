"""Nodes, successors and the heuristic of Countdown searches."""

import pytest

from pipeline_lib.systems.apr.countdown.search import estimate, make_root, successors


@pytest.mark.parametrize(
    ("numbers", "target", "expected"),
    [
        # Factors of 12 from 2 on: 2, 3, 4, 6, 12. |5-4| + |9-12| = 1 + 3, where 9-6 is as far.
        ((5, 9), 12, 4),
        # 1 is no factor here: |1-2| = 1.
        ((1,), 12, 1),
        # A prime has itself alone: |10-13| + |20-13| = 3 + 7.
        ((10, 20), 13, 10),
    ],
)
def test_the_heuristic_is_the_distance_to_factors(numbers, target, expected):
    """Each number adds its distance to the nearest factor of the target, of 2 or more."""
    assert estimate(numbers, target) == expected


def test_successors_are_all_operations_by_cost():
    """Two numbers have a sum, a product, a difference and an exact quotient; ties keep this order."""
    found = [
        (node.operation, node.numbers, node.cost) for node in successors(make_root((2, 8), 10), 10)
    ]
    # Factors of 10: 2, 5, 10. Costs: 10 -> 0, 4 -> 1, 6 -> 1, 16 -> 6.
    assert found == [
        ("2+8=10", (10,), 0),
        ("8-2=6", (6,), 1),
        ("8/2=4", (4,), 1),
        ("2*8=16", (16,), 6),
    ]


def test_the_result_comes_last():
    """The other numbers keep their order, and the result follows them."""
    by_operation = {node.operation: node.numbers for node in successors(make_root((3, 7, 5), 9), 9)}
    assert by_operation["3+7=10"] == (5, 10)
    assert by_operation["5-3=2"] == (7, 2)
    assert "7/5=1" not in by_operation


def test_zero_divides_nothing():
    """A difference of 0 leads to no quotient by it."""
    operations = [node.operation for node in successors(make_root((0, 4), 4), 4)]
    assert sorted(operations) == ["0*4=0", "0+4=4", "4-0=4"]
