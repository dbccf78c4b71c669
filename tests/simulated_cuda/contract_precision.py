"""Full fine-tuning on a GPU of a model that is stored in bfloat16 gains what it gains from float32."""

import pytest
import torch

from benchmarks.training_precision import held_out_loss, store, train
from pipeline_lib.params.paths import BootstrapParams, CountdownParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.train.bootstrap import make_base_policy

pytestmark = pytest.mark.gpu
TRAINED, RATE, STEPS = 200, 1e-5, 20


def test_the_held_out_loss_falls_as_from_float32(tmp_path):
    """Of the published folder, loaded again for training, over two rounds."""
    rows = solution_rows(generate(CountdownParams(), seed=7, count=TRAINED + 50), None)
    small = BootstrapParams(hidden_size=64, num_layers=2, num_heads=2, steps=40, threads=1)
    base = tmp_path / "base"
    make_base_policy(rows[:TRAINED], base, params=small, seed=7, key="base")
    falls = {}
    for dtype in (torch.float32, torch.bfloat16):
        work = tmp_path / str(dtype)
        folder = store(base, work / "0", dtype)
        before = held_out_loss(folder, rows[TRAINED:])
        for number in ("1", "2"):
            folder = train("now", folder, work / number, rows[:TRAINED], rate=RATE, steps=STEPS)
            falls[dtype, number] = before - held_out_loss(folder, rows[TRAINED:])
    for number in ("1", "2"):
        assert falls[torch.float32, number] > 0
        from_float32 = pytest.approx(falls[torch.float32, number], rel=0.05)
        assert falls[torch.bfloat16, number] == from_float32
