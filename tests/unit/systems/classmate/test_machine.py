"""What peers that are processes take is refused where the machine does not have it."""

import pytest

from flows.ray.classmate_peers import check_resources, opened_peers
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.systems.classmate.processes import check_machine

PROCESSES = ExecutionParams(runner="thread")


def test_gpus_and_cpus_that_the_machine_lacks(tmp_path):
    """In the words of Ray's refusal; nothing is started."""
    for taken, words in (({"num_gpus": 64}, "64 GPUs and 0"), ({"num_cpus": 1e6}, "1e+06 CPUs")):
        peer = PeerParams(name="a", model=str(tmp_path), **taken)
        for refused in (
            lambda peer=peer: check_resources([peer], PROCESSES),
            lambda peer=peer: opened_peers([peer], PROCESSES, root=tmp_path).__enter__(),
        ):
            with pytest.raises(BadInputError, match="this machine cannot place") as raised:
                refused()
            assert words in str(raised.value)
            assert "1 classmates; it has 0 GPUs" in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_an_engine_that_is_not_installed(tmp_path):
    """The peer is named."""
    serve = ServeParams(engine="vllm", environment=str(tmp_path / "none"))
    with pytest.raises(BadInputError, match=r"^classmate a: .*none/bin/python with vllm"):
        check_machine([PeerParams(name="a", model=str(tmp_path), serve=serve)])


def test_what_the_machine_has():
    """A peer without GPUs on a CPU."""
    check_machine([PeerParams(name="a", model="m", num_cpus=1)])
