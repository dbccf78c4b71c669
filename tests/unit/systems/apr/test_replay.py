"""The benchmark that replays traces: chains of calls, and the seconds that are predicted for them."""

import pytest

from benchmarks.apr_replay import Draw, Speeds, read_chains
from pipeline_lib.store import shards
from pipeline_lib.systems.apr.countdown.data_folder import traces_folder
from pipeline_lib.systems.apr.countdown.tokens import count_tokens


def draws(*tokens):
    return [Draw(prompt="p", tokens=count) for count in tokens]


def test_the_seconds_of_a_chain():
    """A parent of 10 tokens; children of 2, 5 and 9: three at once, then two, then one; a parent of 4."""
    speeds = Speeds(token_s={1: 1.0, 2: 1.5, 3: 2.0}, call_s={1: 10.0, 2: 15.0, 3: 20.0})
    children = 20 + 2 * 2.0 + 3 * 1.5 + 4 * 1.0
    chain = [draws(10), draws(9, 2, 5), draws(4)]
    assert speeds.predict(chain) == pytest.approx(10 + 10 + children + 10 + 4)


def test_a_chain_has_the_segments_of_the_parent_and_their_children(small_data):
    """All sequences once, in the parent's order; a serial trace is one call."""
    parallel, serial = (
        read_chains(small_data, kind, window=2000) for kind in ("parallel", "serial")
    )
    assert {len(chain) for chain in serial.values()} == {1}
    rows = shards.read_table(traces_folder(small_data, "parallel"))
    assert sum(len(step) for chain in parallel.values() for step in chain) == len(rows)
    for chain in parallel.values():
        assert [len(step) for step in chain[::2]] == [1] * len(chain[::2])
        assert len(chain) % 2 == 1
    joined = [row for row in rows if row["role"] == "parent" and row["round"] == 1]
    last = parallel[joined[0]["problem_id"]][2][0]
    assert last.prompt.endswith(joined[0]["prefix"])
    assert last.tokens == 1 + count_tokens(joined[0]["output"], num_numbers=3)


def test_traces_beyond_the_window_are_left_out(small_data):
    """Whole problems, not sequences."""
    whole, cut = (read_chains(small_data, "serial", window=window) for window in (2000, 150))
    assert cut == {name: chain for name, chain in whole.items() if name in cut}
    assert 0 < len(cut) < len(whole)
