"""GPUs that an engine uses: devices, time limits, counts."""

import pytest

from pipeline_lib.engines.known.engine import ServedModel, common_environment
from pipeline_lib.engines.known.table import ENGINES
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.serve import ServeParams

SERVED = ServedModel(model="hub/id", name="policy", port=8300)


@pytest.fixture
def gpus(monkeypatch):
    """Sets how many GPUs the process sees."""

    def see(count):
        monkeypatch.setattr("pipeline_lib.engines.known.engine.visible_gpus", lambda: count)

    return see


def test_a_server_sees_the_gpus_of_the_params_alone(gpus, monkeypatch):
    """By their numbers among those that the command sees; by default all."""
    gpus(4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "CUDA_VISIBLE_DEVICES" not in common_environment(ServeParams(), SERVED)
    found = common_environment(ServeParams(gpus=(1, 3)), SERVED)
    assert found["CUDA_VISIBLE_DEVICES"] == "1,3"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-abc")
    assert common_environment(ServeParams(gpus=(1,)), SERVED)["CUDA_VISIBLE_DEVICES"] == "GPU-abc"
    with pytest.raises(BadInputError, match=r"serve\.gpus: there is no GPU 2, of 2"):
        common_environment(ServeParams(gpus=(0, 2)), SERVED)


@pytest.mark.parametrize(
    ("engine", "named", "there", "expected"),
    [
        ("embedded", None, 4, 1),
        ("embedded", None, 0, 0),
        ("vllm", None, 4, 4),
        ("vllm", (1, 2), 4, 2),
        ("url", None, 4, 0),
    ],
)
def test_gpu_time_is_of_the_gpus_that_are_used(engine, named, there, expected, gpus):
    gpus(there)
    assert ENGINES[engine].num_gpus(ServeParams(gpus=named)) == expected


@pytest.mark.parametrize(
    ("engine", "there", "given", "expected"),
    [
        ("vllm", 1, None, 120),
        ("sglang", 1, None, 120),
        ("vllm", 0, None, 30),
        ("embedded", 1, None, 30),
        ("vllm", 1, 7.0, 7),
    ],
)
def test_kernels_are_compiled_at_their_first_use(engine, there, given, expected, gpus):
    """Without a token for longer than on a CPU; a param is taken as it is."""
    gpus(there)
    assert ENGINES[engine].hang_timeout_s(ServeParams(hang_timeout_s=given)) == expected
