"""Searches as records, and golds that do not reach them."""

import pytest

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.evaluate import BeamParams, Strategy
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import FinishReason, Problem
from pipeline_lib.study.curves.estimates import read_cost
from pipeline_lib.study.curves.search_records import search_problems
from pipeline_lib.verify.dispatch import open_verifier
from tests.unit.study.scripted_search import setting

SEARCHES = [(Strategy.BEAM, 4), (Strategy.TREE, 6)]


@pytest.fixture(scope="module")
def verifier():
    with open_verifier(VerifyParams()) as opened:
        yield opened


def asked(golds):
    return [
        Problem(id=f"m{n}", question=f"What is {n} + {n}?", gold=MathGold(answer=gold), source="t")
        for n, gold in enumerate(golds)
    ]


def answer(prompt, seed):
    """Mostly one answer, now and then another, after one step."""
    rest = f"\\boxed{{{seed % 3}}}" if seed % 4 else "\\boxed{9}"
    return rest if "step" in prompt.partition("}.")[2] else f"step {seed % 2}\n{rest}"


def records(golds, verifier, strategy, budget, script=answer):
    own = setting(
        script,
        logprob=lambda _, text: -float(len(text)),
        beam=BeamParams(expansion=2, value="likelihood"),
    )
    return search_problems(asked(golds), own, verifier, strategy=strategy, budget=budget)


@pytest.mark.parametrize(("strategy", "budget"), SEARCHES)
def test_poisoned_golds_change_nothing(verifier, strategy, budget):
    """With the golds of the problems swapped, every path, token and cost is the same."""
    honest = records(["0", "2", "4"], verifier, strategy, budget)
    assert honest == records(["4", "0", "2"], verifier, strategy, budget)
    assert honest == records(["9", "9", "9"], verifier, strategy, budget)
    assert len(honest.paths) >= 3


@pytest.mark.parametrize(("strategy", "budget"), SEARCHES)
def test_there_is_a_cost_for_every_path(verifier, strategy, budget):
    """By problem and index, and the last ones sum up to what was spent."""
    found = records(["0", "2"], verifier, strategy, budget)
    places = [(path.problem_id, path.index) for path in found.paths]
    assert places == [(row["problem_id"], row["index"]) for row in found.costs]
    last = {row["problem_id"]: read_cost(row) for row in found.costs}
    assert found.spent.completion_tokens == sum(cost.completion_tokens for cost in last.values())
    assert found.spent.requests == sum(cost.calls for cost in last.values())


def test_a_tree_has_a_path_a_simulation(verifier):
    """In their order, so that a prefix of them is a smaller budget."""
    found = records(["0"], verifier, Strategy.TREE, 6)
    assert [path.index for path in found.paths] == list(range(6))


@pytest.mark.parametrize(("strategy", "budget"), SEARCHES)
def test_failed_requests_become_failed_paths(verifier, strategy, budget):
    """They are never judged, so never wrong."""
    found = records(["0"], verifier, strategy, budget, script=lambda *_: None)
    assert {path.finish_reason for path in found.paths} == {FinishReason.ERROR}
    assert all(path.error for path in found.paths)
