"""The pool of workers without Ray: which worker gets a call, what is sent again, what is refused."""

import asyncio

import pytest

from pipeline_lib.engines.chat_model import Request
from pipeline_lib.engines.client.client import ServerChat
from pipeline_lib.engines.client.connection import EngineDownError
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.pacore import PacoreParams
from pipeline_lib.sampling.compute_cost import request_cost
from pipeline_lib.systems.pacore.drive import solve_all
from pipeline_lib.systems.pacore.worker_pool import PATHS_PER_CALL
from pipeline_lib.systems.pacore.workers import WorkerLeavingError, WorkerLostError
from tests.unit.systems.pacore.fake_workers import FakeWorker, found_of, pool_of
from tests.unit.systems.pacore.scripted_chat import DECODING, TURNS, question, setting, text_of

PROMPT = ServerChat().render(TURNS)


def drawn_by(pool, *, paths=4, model=None):
    request = Request(prompt=PROMPT, seeds=range(paths), model=model)
    [drawn] = pool.complete([request], DECODING)
    return drawn


def texts(completions):
    return [one.text for one in completions]


def test_completions_do_not_depend_on_the_workers():
    """A request of 20 paths is three calls, of at most 8 paths each, in the order of its seeds."""
    one, two = FakeWorker("1"), FakeWorker("2")
    alone = drawn_by(pool_of(FakeWorker("0")), paths=20)
    shared = drawn_by(pool_of(one, two), paths=20)
    assert texts(shared) == texts(alone) == [text_of("A" + PROMPT, seed) for seed in range(20)]
    sizes = sorted(len(call.seeds) for call in one.calls + two.calls)
    assert sizes == [20 - 2 * PATHS_PER_CALL, PATHS_PER_CALL, PATHS_PER_CALL]


def test_each_call_pays_for_its_prompt():
    """A request of 32 paths is four calls, each of which reads the prompt."""
    drawn = drawn_by(pool_of(FakeWorker("1")), paths=4 * PATHS_PER_CALL)
    opening = [place for place, one in enumerate(drawn) if one.opens_request]
    assert opening == [0, PATHS_PER_CALL, 2 * PATHS_PER_CALL, 3 * PATHS_PER_CALL]
    assert request_cost(drawn).prompt_tokens == 4 * len(PROMPT.split())


def test_calls_go_where_there_is_room():
    """No worker has more calls than its card says; the wider one draws more of them."""
    narrow, wide = FakeWorker("1", calls_together=1), FakeWorker("2", calls_together=3)
    drawn_by(pool_of(narrow, wide), paths=16 * PATHS_PER_CALL)
    assert (narrow.most_in_flight, wide.most_in_flight) == (1, 3)
    assert len(wide.calls) > len(narrow.calls)


def test_a_lost_call_goes_to_another_worker():
    """With the same seeds; it is counted."""
    dead, alive = FakeWorker("1", fault=WorkerLostError), FakeWorker("2")
    pool = pool_of(dead, alive)
    assert texts(drawn_by(pool)) == [text_of("A" + PROMPT, seed) for seed in range(4)]
    assert (pool.lost_calls, pool.calls_by_worker) == (1, {"2": 1})


def test_a_call_that_is_lost_three_times_has_failed():
    """Each of its paths is a completion with an error: it may be the call that ends the workers."""
    pool = pool_of(FakeWorker("1", fault=WorkerLostError))
    drawn = drawn_by(pool)
    assert {one.error for one in drawn} == {"its worker was lost 3 times"}
    assert (len(drawn), pool.lost_calls) == (4, 3)


def test_a_worker_that_leaves_loses_nothing():
    """Its refusals do not count."""
    leaving, staying = FakeWorker("1", fault=WorkerLeavingError), FakeWorker("2")
    pool = pool_of(leaving, staying)
    drawn = drawn_by(pool, paths=4 * PATHS_PER_CALL)
    assert all(one.error is None for one in drawn)
    assert (pool.lost_calls, pool.calls_by_worker) == (0, {"2": 4})


@pytest.mark.parametrize("error", [BadInputError("bad"), EngineDownError("down"), KeyError("bug")])
def test_other_errors_are_not_retried(error):
    """A bad request, an engine that is down and a bug end the batch."""
    other = FakeWorker("2", calls_together=1)
    with pytest.raises(type(error)):
        drawn_by(pool_of(FakeWorker("1", fault=lambda: error), other), paths=1)
    assert not other.calls


def test_a_model_without_a_worker_is_awaited():
    """A worker that joins in time draws; after the patience the batch ends, with the model's name."""
    workers: list[FakeWorker] = [FakeWorker("1")]
    pool = pool_of(*workers)
    pool.find = found_of([])
    pool.update({})

    async def join_late():
        async with pool.open() as session:
            drawing = asyncio.create_task(
                session.complete(Request(prompt=PROMPT, seeds=[3]), DECODING)
            )
            await asyncio.sleep(0.2)
            assert not drawing.done()
            pool.find = found_of([FakeWorker("2")])
            return await drawing

    assert texts(asyncio.run(join_late())) == [text_of("A" + PROMPT, 3)]
    pool.find, pool.patience_s = found_of([]), 0.1
    pool.update({})
    with pytest.raises(EngineDownError, match=r"no worker of A for 0\.1 s"):
        drawn_by(pool)


def test_models_share_each_round():
    """Path i is of model i mod 2, a summary of the model of its path, the last round of the first model."""
    pool = pool_of(FakeWorker("1", "A"), FakeWorker("2", "B"), models=["B", "A"])
    found = []
    shared = setting(
        PacoreParams(widths=(5, 2)),
        chat_format=pool.chat_format,
        models=pool.models,
        summary=DECODING,
    )
    solve_all(pool, [question()], shared, together=1, on_solved=found.append)
    models = [[one.model for one in drawn.completions] for drawn in found[0].rounds]
    assert models == [["B", "A", "B", "A", "B"], ["B", "A"], ["B"]]
    # Per model: its paths and their summaries; B's synthesis too.
    assert pool.calls_by_worker == {"1": 2 * (2 + 1), "2": 2 * (3 + 1) + 1}


def test_workers_of_other_models_are_not_counted():
    """A gateway of one model in a cluster of two: its metrics name the first worker alone."""
    pool = pool_of(FakeWorker("1", "A"), FakeWorker("2", "B"), models=["A"])
    drawn_by(pool)
    assert pool.calls_in_use() == {"1": 1}


def test_the_room_is_that_of_the_smallest_context():
    """Of the models whose room is known; a lost worker is passed over."""
    lost = FakeWorker("0", room_tokens=1, fault=WorkerLostError)
    long, short = FakeWorker("1", room_tokens=90), FakeWorker("2", "B", room_tokens=40)
    unknown = FakeWorker("3", "C")
    assert pool_of(lost, long, short, unknown, models=["A", "B", "C"]).room(PROMPT) == 40
    assert pool_of(lost, long).room(PROMPT) == 90
    assert pool_of(unknown, models=["C"]).room(PROMPT) is None


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (["C"], "here: no worker serves C; there are workers of A, B, D"),
        (["A", "B", "A"], "A is given twice"),
        (["B"], "workers 2 and 3 serve different models as B"),
        (["A", "D"], "D reads compact prompts, and others read words"),
    ],
)
def test_refused_models(models, message):
    """Before the first call."""
    workers = [
        FakeWorker("1"),
        FakeWorker("2", "B"),
        FakeWorker("3", "B", identity="others"),
        FakeWorker("4", "D", is_compact=True),
    ]
    with pytest.raises(BadInputError, match=message):
        pool_of(*workers, models=models)


def test_compact_prompts_are_those_of_the_model():
    """Workers of a model from scratch get synthesis prompts without words."""
    for is_compact in (True, False):
        pool = pool_of(FakeWorker("1", is_compact=is_compact))
        assert pool.chat_format.is_compact == is_compact
