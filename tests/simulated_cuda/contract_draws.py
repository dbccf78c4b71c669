"""The embedded engine on a GPU: where its weights are, their dtype, and how often the host waits for the device."""

import os

import pytest
import torch

from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from tests.simulated_cuda import device
from tests.unit.train import conftest as loop

pytestmark = pytest.mark.gpu
tiny, problems, base = loop.tiny, loop.problems, loop.base

WAITS = 358
"""Waits in one draw of 4 x 8 paths of 24 tokens, the choice of a decode pass included. It may only fall."""
LAUNCHED = ("2,3=5\n", "9,4=36\n", "7,8=15\n", "5,5=25\n")


def draw(base, temperature: float) -> tuple[EmbeddedEngine, int, int]:
    """The engine, the tokens that it drew, and its waits while it did."""
    engine = EmbeddedEngine.load(str(base), batch_size=16)
    requests = [
        Request(prompt=prompt, seeds=tuple(range(8 * place, 8 * place + 8)))
        for place, prompt in enumerate(LAUNCHED)
    ]
    device.SYNCS.clear()
    groups = engine.complete(requests, Decoding(max_new_tokens=24, temperature=temperature))
    tokens = sum(one.completion_tokens for group in groups for one in group)
    return engine, tokens, sum(device.SYNCS.values())


def test_a_draw(base):
    """All paths are drawn; weights are bfloat16 on the GPU."""
    engine, tokens, _ = draw(base, 1.0)
    assert tokens > 32
    assert {str(one.device) for one in engine.model.parameters()} == {"cuda:0"}
    assert {one.dtype for one in engine.model.parameters()} == {torch.bfloat16}


@pytest.mark.skipif("SIMULATED_CUDA" not in os.environ, reason="only the simulated device counts")
def test_waits_of_the_host(base):
    """As many as recorded: a change that lowers them records the new number."""
    _, tokens, waits = draw(base, 0.0)
    assert (tokens, waits) == (768, WAITS), device.SYNCS.most_common()
