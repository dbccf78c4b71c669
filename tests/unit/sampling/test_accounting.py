"""Accounting: usage and cost of shards, and the budget check before the next one."""

import pyarrow.parquet as pq
import pytest

from pipeline_lib.errors import BudgetReachedError
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.records import FinishReason, Path, Provenance, Service
from pipeline_lib.sampling.accounting import (
    PATHS,
    SERVICE_FOLDER,
    Spent,
    engine_time,
    record_spending,
    require_budget,
    spent_in,
    spent_on,
)
from pipeline_lib.sampling.paths import path_counts
from pipeline_lib.store.shards import write_shard
from pipeline_lib.telemetry import read_events


def path(problem_id, index, *, prompt=10, cached=0, completion=5, opens=False):
    return Path(
        problem_id=problem_id,
        index=index,
        text="x",
        finish_reason=FinishReason.STOP,
        prompt_tokens=prompt,
        completion_tokens=completion,
        logprob=None,
        provenance=Provenance(
            model="m",
            template="t",
            seed=index,
            temperature=1.0,
            top_p=1.0,
            max_new_tokens=9,
            engine="vllm",
        ),
        service=Service(latency_s=0.5, cached_tokens=cached, opens_request=opens),
    )


def write_paths(folder, index, paths, *, key):
    rows = [one.row() for one in paths]
    write_shard(folder, index, rows, kind=PATHS, key=key, counts=path_counts(paths))


@pytest.mark.parametrize(
    ("paths", "spent"),
    [
        ([path("a", i, cached=4) for i in range(3)], (1, 10, 4, 15)),
        ([path("a", i, cached=9 * (i > 0), opens=True) for i in range(3)], (3, 30, 18, 15)),
        ([path(problem, i) for problem in "ab" for i in range(2)], (2, 20, 0, 20)),
    ],
    ids=["a shared prompt counts once", "each request pays for it", "problems are counted apart"],
)
def test_what_paths_spend(paths, spent):
    """Requests, prompt tokens, those of them that were cached, and drawn tokens."""
    names = ("requests", "prompt_tokens", "cached_tokens", "completion_tokens")
    assert spent_on(paths) == Spent(**dict(zip(names, spent, strict=True)))


def test_cost_by_hand():
    """2,000,000 prompt tokens at 0.5 and 100,000 completion tokens at 3 a million: 1.0 + 0.3."""
    serve = ServeParams(
        price_per_million_prompt_tokens=0.5, price_per_million_completion_tokens=3.0
    )
    spent = Spent(prompt_tokens=2_000_000, completion_tokens=100_000)
    assert spent.cost(serve) == pytest.approx(1.3)


def test_totals_are_what_lies_on_disk(tmp_path):
    """Shards of any round and any evaluation count; other tables and damaged manifests do not."""
    for place in ("paths", "rounds/2/paths", "evaluation/base/paths"):
        write_paths(tmp_path / "data" / place, 0, [path("a", 0)], key=place)
    write_paths(tmp_path / "data" / "paths", 1, [path("b", 0)], key="paths")
    write_shard(
        tmp_path / "data" / "verdicts",
        0,
        [{"a": 1}],
        kind="verdicts",
        key="k",
        counts={"completion_tokens": 1000},
    )
    assert spent_in(tmp_path / "empty") == Spent()
    require_budget(tmp_path / "empty", ServeParams(budget_tokens=1))
    assert spent_in(tmp_path) == Spent(requests=4, prompt_tokens=40, completion_tokens=20)
    (tmp_path / "data" / "paths" / "part-00001.manifest.json").write_text("{")
    assert spent_in(tmp_path) == Spent(requests=3, prompt_tokens=30, completion_tokens=15)


def test_a_budget_stops_before_the_next_shard_and_can_be_raised(tmp_path):
    """15 tokens per shard with a budget of 30: two shards are drawn, the third after raising it."""
    drawn = 0

    def draw(budget):
        nonlocal drawn
        require_budget(tmp_path, ServeParams(budget_tokens=budget))
        write_paths(tmp_path / "data" / "paths", drawn, [path("a", 0)], key="k")
        drawn += 1

    draw(30)
    draw(30)
    with pytest.raises(BudgetReachedError) as caught:
        draw(30)
    assert str(caught.value) == (
        "budget reached: 30 of serve.budget_tokens=30 are used; finished shards are kept, "
        "raise it and run the same command to resume"
    )
    assert caught.value.exit_code == 3
    draw(31)
    assert drawn == 3
    assert spent_in(tmp_path).tokens == 45


def test_a_budget_in_money(tmp_path):
    """10 prompt tokens at 100,000 a million are 1.0, 5 completion tokens at 200,000 are 1.0 too."""
    prices = {
        "price_per_million_prompt_tokens": 100_000.0,
        "price_per_million_completion_tokens": 200_000.0,
    }
    write_paths(tmp_path / "data" / "paths", 0, [path("a", 0)], key="k")
    require_budget(tmp_path, ServeParams(budget_money=2.01, **prices))
    with pytest.raises(BudgetReachedError, match=r"2 of serve\.budget_money=2 are used"):
        require_budget(tmp_path, ServeParams(budget_money=2.0, **prices))


def test_every_path_s_service_is_on_record(tmp_path):
    """Engine, latency and cached tokens of each path are in a file of the shard, not in the path's row;
    the events have one line for the shard.
    """
    paths = [path("a", 0, cached=3), path("a", 1)]
    table = tmp_path / "data" / "paths"
    record_spending(tmp_path, table, 3, paths, draw="round-1", engine_seconds=2.0, gpus=1)
    service = tmp_path / SERVICE_FOLDER / "data" / "paths" / "part-00003.parquet"
    rows = pq.read_table(service).to_pylist()
    assert rows[0] == {
        "engine": "vllm",
        "path": "a#0",
        "latency_s": 0.5,
        "cached_tokens": 3,
        "opens_request": False,
    }
    assert [row["path"] for row in rows] == ["a#0", "a#1"]
    assert "latency_s" not in paths[0].row()
    [event] = read_events(tmp_path)
    assert (event["requests"], event["completion_tokens"]) == (1, 10)
    assert engine_time([event]) == (2.0, 2.0)


def spending(shard, *, engine, end, seconds, gpus=0):
    return {
        "event": "spending",
        "at": f"2026-11-20T12:00:{end:02d}+00:00",
        "draw": "round-1",
        "shard": shard,
        "engine": engine,
        "engine_seconds": seconds,
        "gpus": gpus,
    }


def test_workers_of_one_server_wait_together():
    """Waits of 0-10 s, 5-12 s and 20-21 s on one GPU server: it worked for 12 + 1 = 13 s."""
    waits = [(10, 10.0), (12, 7.0), (21, 1.0)]
    events = [
        spending(shard, engine="vllm", end=end, seconds=seconds, gpus=1)
        for shard, (end, seconds) in enumerate(waits)
    ]
    assert engine_time(events) == (13.0, 13.0)


def test_embedded_engines_work_beside_each_other():
    """10 s and 7 s in two processes add up; a shard drawn again replaces its first draw; the 4 s of another
    policy, which shares the draw but no table, count, too."""
    draws = [(0, 5, 3.0), (0, 10, 10.0), (1, 12, 7.0)]
    events = [spending(n, engine="embedded", end=end, seconds=s) for n, end, s in draws]
    events += [
        {"event": "work", "at": "2026-11-20T12:00:12+00:00"},
        {**spending(0, engine="embedded", end=9, seconds=4.0), "table": "trained/paths"},
    ]
    assert engine_time(events) == (21.0, 0.0)
