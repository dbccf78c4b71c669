"""Generated look-ups: chains follow the tables, in one of two notations, and splits share no problem."""

import pytest

from pipeline_lib.params.paths import PEER_SOLUTION, HopsParams
from pipeline_lib.problems.hops import splits

COUNTS = {"test": 200, "train": 400, "bootstrap": 400}


@pytest.fixture(scope="module")
def drawn():
    return splits(HopsParams(), seed=3, counts=COUNTS)


def test_a_table_leads_each_entity_to_one_other(drawn):
    """Over all chains; no entity comes twice in one, and the last is the gold."""
    found = {}
    for problem in (one for split in drawn.values() for one in split):
        start, *tables = problem.question.split()
        chain = [int(start), *(int(name) % 100 for name in problem.solution.split("\n"))]
        assert len({*chain}) == len(chain) == 7
        assert chain[-1] == problem.gold.entity
        for name, one, other in zip(tables, chain, chain[1:], strict=False):
            assert found.setdefault((name, one), other) == other
    # An entity that a table leads to itself is in no chain.
    assert 4 * 32 - 12 < len(found) <= 4 * 32


def test_the_share_of_the_second_notation(drawn):
    """Half of 400 worked solutions, 5 % of those for peers; a chain is in one notation."""

    def second(text):
        kinds = {int(name) > 100 for name in text.split("\n")}
        assert len(kinds) == 1
        return kinds.pop()

    rows = drawn["bootstrap"]
    assert 150 < sum(second(one.solution) for one in rows) < 250
    assert 5 < sum(second(one.columns[PEER_SOLUTION]) for one in rows) < 45


def test_splits_share_no_problem(drawn):
    ids = [problem.id for split in drawn.values() for problem in split]
    assert len({*ids}) == len(ids) == sum(COUNTS.values())


def test_a_split_is_smaller_where_too_few_problems_exist():
    """Two entities and one table of one hop hold at most two problems."""
    found = splits(HopsParams(hops=1, entities=2, tables=1), seed=3, counts={"test": 3})["test"]
    assert len(found) < 3
