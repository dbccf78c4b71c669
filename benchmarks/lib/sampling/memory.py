"""Memory of a process that samples shard by shard, as the flows do."""

import pathlib
import tempfile
import time

import psutil

from pipeline_lib.engines.embedded.embedded_engine import shared_engine
from pipeline_lib.params.paths import CountdownParams, SampleParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.sampling.paths import KIND, sample_paths
from pipeline_lib.store import shards

SEED = 7
LINES = 10
"""Most lines printed."""


def measure_memory(model: str, paths: int, *, max_new_tokens: int) -> None:
    """Sample and store ``paths`` paths of Countdown problems, printing memory between shards."""
    params = SampleParams(max_new_tokens=max_new_tokens)
    problems = generate(CountdownParams(), seed=SEED, count=-(-paths // params.num_paths))
    parts = shards.split(problems, params.shard_size)
    process = psutil.Process()
    tokens = drawn = 0
    start = time.perf_counter()
    print(f"{'paths':>8}{'tokens':>10}{'seconds':>9}{'process MiB':>13}{'keys, values MiB':>18}")
    with tempfile.TemporaryDirectory() as folder:
        for index, part in enumerate(parts):
            engine = shared_engine(model, batch_size=params.batch_size)
            shard = sample_paths(part, engine, params, seed=SEED, draw="flat")
            rows = [path.row() for path in shard]
            shards.write_shard(pathlib.Path(folder), index, rows, kind=KIND, key="flat")
            drawn += len(shard)
            tokens += sum(path.completion_tokens for path in shard)
            if index % -(-len(parts) // LINES) == 0 or index == len(parts) - 1:
                seconds = time.perf_counter() - start
                resident = process.memory_info().rss / 2**20
                held = engine.pool.held_bytes / 2**20
                print(f"{drawn:>8}{tokens:>10}{seconds:>9.1f}{resident:>13.0f}{held:>18.0f}")
