"""Token ids and log-probabilities of paths, stored on request."""

from dataclasses import replace

import pytest

from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import SampleParams
from pipeline_lib.records import Path, Problem
from pipeline_lib.sampling.paths import KIND, sample_paths
from pipeline_lib.store.shards import read_shard, write_shard

PROBLEMS = [
    Problem(id=f"c{i}", question="ab", gold=CountdownGold(numbers=(i, 1), target=2), source="t")
    for i in range(2)
]


def test_tokens_are_kept_on_request(tmp_path, tiny_model):
    """With their log-probabilities, whose sum the path holds; a shard keeps them exactly."""
    engine = EmbeddedEngine.load(str(tiny_model), batch_size=4)
    kept, plain = (
        sample_paths(
            PROBLEMS,
            engine,
            SampleParams(num_paths=3, max_new_tokens=5, keep_tokens=keep),
            seed=7,
            draw="round-1",
        )
        for keep in (True, False)
    )
    write_shard(tmp_path, 0, [path.row() for path in kept], kind=KIND, key="k")
    assert [Path.from_row(row) for row in read_shard(tmp_path, 0)] == kept
    for path, other in zip(kept, plain, strict=True):
        assert len(path.token_ids) == len(path.token_logprobs) == path.completion_tokens
        assert sum(path.token_logprobs) == pytest.approx(path.logprob)
        assert other == replace(path, token_ids=None, token_logprobs=None)
