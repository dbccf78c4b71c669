"""An evaluation's golds reach no prompt, no choice and no cost."""

from dataclasses import replace

import pytest
from starlette.responses import JSONResponse

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.pacore import ComparisonParams, EarlyStop, PacoreParams, Rsa
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Problem
from pipeline_lib.systems.pacore.evaluation import evaluate_models
from tests.unit.engines.scripted_server import MODEL, scripted_server
from tests.unit.systems.pacore.scripted_chat import chat_response

PROBLEMS = [
    Problem(id=name, question=f"{name}?", gold=MathGold(answer=answer), source="test")
    for name, answer in (("a", "1"), ("b", "2"), ("c", "3"))
]


async def by_seed(_request, body):
    return JSONResponse(chat_response(body, f"\\boxed{{{1 + body.get('seed', 0) % 4}}}"))


@pytest.fixture
def server():
    with scripted_server() as running:
        running.models = [{"id": MODEL}]
        running.always = by_seed
        yield running


def evaluated(server, folder, problems):
    """Requests of the evaluation, in a fixed order, and its result."""
    server.bodies.clear()
    compared = ComparisonParams(
        widths=((2,), (4, 2)),
        early_stop=EarlyStop(minimum=2),
        rsa=Rsa(population=3, subset=2, steps=2),
        plain_paths=6,
    )
    params = Params(
        pacore=PacoreParams(max_new_tokens=32, evaluate=compared),
        evaluate=EvaluateParams(resamples=100),
        serve=ServeParams(engine="url", url=f"http://127.0.0.1:{server.port}/v1"),
    )
    study = evaluate_models({"m": MODEL}, problems, folder, params, about="m")
    return sorted(map(repr, server.bodies)), study


def test_swapped_golds_change_no_request_and_no_cost(server, tmp_path):
    """Only accuracies differ: requests, paths and tokens of every vote and strategy are the same."""
    golds = [problem.gold for problem in PROBLEMS]
    swapped = [
        replace(problem, gold=gold)
        for problem, gold in zip(PROBLEMS, [*golds[1:], golds[0]], strict=True)
    ]
    asked, result = evaluated(server, tmp_path / "right", PROBLEMS)
    asked_again, other = evaluated(server, tmp_path / "swapped", swapped)
    assert asked == asked_again
    costs = [
        [(point.arm, point.cost) for point in one.points if point.measure == "accuracy"]
        for one in (result, other)
    ]
    assert costs[0] == costs[1]
    assert result.points != other.points
