"""The embedded engine over HTTP, supervised like any other engine."""

import pathlib

import pytest

from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.params.serve import ServeParams
from tests.unit.engines.launch.real_engines import kill_while_sampling, process_ids, swap_adapters

SERVE = ServeParams(engine="embedded", port=18800, start_timeout_s=120)


@pytest.mark.slow
def test_a_crash_loses_no_path_and_adapters_are_replaced(
    llama, adapters, greedy, tmp_path: pathlib.Path
):
    """Two versions of an adapter, then a kill while 32 paths are drawn; no process is left."""
    with serving_engine(SERVE, model=str(llama), log_folder=tmp_path, lora_rank=16) as engine:
        swap_adapters(engine, adapters, greedy)
        [server] = process_ids(engine)
        kill_while_sampling(engine, SERVE, server)
    assert process_ids(engine) == []
