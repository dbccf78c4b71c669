"""What evaluations compute on a GPU, by system; each also runs in strict deterministic mode there."""

import pytest
import torch

from pipeline_lib.determinism import deterministic
from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.known.engine import ServedModel
from pipeline_lib.engines.known.vllm import VLLM
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.systems.prr.evaluation.answers import judge_batch
from pipeline_lib.systems.prr.evaluation_folder import compute_device
from tests.unit.systems.classmate.peer_models import save_peer
from tests.unit.systems.prr.small_models import random_batch, small_prr, small_trm
from tests.unit.train import conftest as loop

pytestmark = pytest.mark.gpu
tiny, problems, base = loop.tiny, loop.problems, loop.base


def test_paths_of_loop_and_threads(base):
    """Greedy and drawn, with a nucleus: within strict mode, texts are those of a second engine."""
    requests = [Request(prompt="2,3=5\n", seeds=(1, 2, 3))]
    for decoding in (Decoding(max_new_tokens=8), Decoding(max_new_tokens=8, top_p=0.9)):
        with deterministic(threads=1, seed=1):
            texts = [
                [
                    one.text
                    for one in EmbeddedEngine.load(str(base), batch_size=8).complete(
                        requests, decoding
                    )[0]
                ]
                for _ in range(2)
            ]
        assert texts[0] == texts[1]


def test_continuations_of_a_peer(tmp_path):
    """Classmate: its continuations come from weights on the GPU."""
    engine = EmbeddedEngine.load(str(save_peer(tmp_path / "peer")), batch_size=8)
    [group] = engine.complete([Request(prompt="2", seeds=(1,))], Decoding(max_new_tokens=4))
    assert len(group[0].token_ids or ()) >= 1
    assert engine.model.device == torch.device("cuda:0")


def test_puzzles():
    """PRR and TRM: answers are counted where the model is."""
    assert compute_device() == torch.device("cuda")
    for make in (small_prr, small_trm):
        model, batch = make().to(compute_device()), random_batch(padded=2).to(compute_device())
        with deterministic(threads=1, seed=1), torch.no_grad():
            assert len(judge_batch(model.predict(batch), batch).right_BK) == 5


def test_vllm_is_told_of_the_gpu(tmp_path):
    """Chunked prefill is disabled on a CPU alone; whether the driver's tool is on PATH does not matter."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    assert VLLM.launch is not None
    serve = ServeParams(engine="vllm", environment=str(tmp_path))
    launch = VLLM.launch(serve, ServedModel(model="m", name="m", port=1))
    assert "--no-enable-chunked-prefill" not in launch.command
