"""Greedy rollouts in this process and over HTTP, with the benchmark that compares any two engines."""

import shutil

import pytest

from benchmarks.apr_engines import compare_engines, find_difference
from pipeline_lib.engines.embedded.embedded_engine import shared_engine
from pipeline_lib.params.paths import CountdownParams, VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.systems.apr.model_record import read_record
from pipeline_lib.systems.apr.problem_lines import countdown_problem
from pipeline_lib.systems.apr.tasks import task_of
from tests.unit.engines.served_model import served
from tests.unit.systems.apr.learned_model import SOLVED, save_record, shared_model, trace


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apr-engines") / "model"
    shutil.copytree(shared_model(tmp_path_factory), folder)
    # Shorter texts of the problems that it has not learned, which often end at the window alone.
    save_record(folder, window=128)
    return folder


@pytest.mark.slow
def test_100_problems_have_equal_rollouts_in_process_and_over_http(model):
    """98 at least, on problems of which the model has learned two; the others part at a near tie."""
    problems = [
        countdown_problem(str(place), one.gold)
        for place, one in enumerate(generate(CountdownParams(), seed=4, count=100))
    ]
    with served(model) as url:
        serve = ServeParams(engine="url", url=url, tokenizer=str(model))
        found = compare_engines(model, problems, serve)
    assert found.problems == 100
    assert found.equal >= 98
    assert all(one.is_near_tie for one in found.differences)
    assert 0 < found.logprob_gap < 1e-4


def engine_and_task(model):
    """A model in this process, and what it works on."""
    engine = shared_engine(str(model), batch_size=4)
    return engine, task_of(read_record(model), engine.tokenizer, VerifyParams())


def test_a_difference_is_followed_to_its_first_token(model):
    """Of a learned text with another number in its first line: the model is certain there, so it is no near tie."""
    texts = [(one.prefix, one.output) for one in trace(*SOLVED).sequences]
    prefix, output = texts[1]
    changed = [texts[0], (prefix, output.replace("=", "=1", 1)), *texts[2:]]
    found = find_difference(*engine_and_task(model), "a", texts, changed)
    assert (found.problem_id, found.sequence) == ("a", 1)
    assert found.gap > 1
    assert not found.is_near_tie


def test_rollouts_of_other_lengths_have_no_common_token(model):
    """A sequence that one of them lacks: its place, and no gap."""
    texts = [(one.prefix, one.output) for one in trace(*SOLVED).sequences]
    found = find_difference(*engine_and_task(model), "a", texts, texts[:2])
    assert (found.sequence, found.gap, found.is_near_tie) == (2, None, False)
