"""A peer with vLLM, from the second environment (`make serve-env`), beside one with an engine of its own."""

import psutil
import pytest
import torch

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.systems.classmate.peer_engine import check_peer, is_exact
from pipeline_lib.systems.classmate.processes import process_peers
from pipeline_lib.train.bootstrap import make_tokenizer, save_blank_llama
from tests.unit.systems.classmate.peer_models import DECODING, QUESTIONS, ROWS

ENVIRONMENT = REPOSITORY / ".venv-serve"
GREEDY = Decoding(temperature=0.0, max_new_tokens=12)
DEADLINE_S = 3.0
"""Of a call; the first request of the server takes longer on a CPU."""
CALLS = 5

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (ENVIRONMENT / "bin" / "python").exists(), reason="no vLLM: make serve-env"
    ),
]


@pytest.fixture
def model(tmp_path):
    """vLLM's attention on a CPU needs heads of a multiple of 32 channels."""
    tokenizer = make_tokenizer([row["prompt"] + row["completion"] for row in ROWS])
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 512,
    }
    with torch.random.fork_rng():
        torch.manual_seed(5)
        save_blank_llama(tmp_path / "model", tokenizer, **sizes)
    return tmp_path / "model"


def test_five_calls_beside_an_embedded_peer(model, tmp_path, monkeypatch):
    """Each within 3 s, the first one too. Greedy texts are those of the embedded peer; no process is left."""
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    serve = ServeParams(
        engine="vllm",
        port=18960,
        options=("--dtype", "float32", "--max-num-seqs", "16", "--enforce-eager"),
    )
    params = [
        check_peer(PeerParams(name="served", model=str(model), serve=serve)),
        check_peer(PeerParams(name="own", model=str(model))),
    ]
    assert [is_exact(peer) for peer in params] == [False, True]
    with process_peers(params, log_folder=tmp_path) as [served, own]:
        for _ in range(CALLS):
            for peer in (served, own):
                answers = peer.answer(QUESTIONS, DECODING, timeout_s=DEADLINE_S)
                assert not [one.error for answer in answers for one in answer if one.error]
        texts = [
            [one.text for answer in peer.answer(QUESTIONS, GREEDY, timeout_s=60) for one in answer]
            for peer in (served, own)
        ]
        assert texts[0] == texts[1]
        family = psutil.Process().children(recursive=True)
    assert not [process for process in family if process.is_running()]
