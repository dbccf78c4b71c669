"""Parameter counts: published TRM, PRR as first described, and the additions to it."""

import pytest

from benchmarks.lib.latent_presets import LATENT_PRESETS
from pipeline_lib.params.prr import PrrModelParams
from pipeline_lib.systems.prr.model.batches import Sizes
from pipeline_lib.systems.prr.model.saved_model import build_model

ARC = Sizes(vocab_size=12, seq_len=900, num_puzzle_ids=3)
SUDOKU = Sizes(vocab_size=11, seq_len=81, num_puzzle_ids=3)


def weights(preset: str, sizes: Sizes) -> dict[str, int]:
    """Parameters by name."""
    chosen = LATENT_PRESETS[preset]
    model = build_model(chosen.model, sizes, loss=chosen.loss)
    return {name: parameter.numel() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize(
    ("preset", "sizes", "count"),
    [("trm", ARC, 6_829_058), ("trm-mlp", SUDOKU, 5_028_866), ("brief", ARC, 1_745_153)],
)
def test_models_have_their_known_sizes(preset, sizes, count):
    """Counts exclude puzzle vectors, as the published ones do."""
    assert sum(weights(preset, sizes).values()) == count


def test_ours_adds_only_branch_vectors_and_certainty_weights():
    """K x D = 8 x 256 weights, 0.12 % of the model, and 2; all others are unchanged."""
    brief, ours = weights("brief", ARC), weights("ours", ARC)
    added = {name: ours[name] for name in ours.keys() - brief.keys()}
    assert added == {"branches.step_KD": 2048, "scorer.certainty.weight": 2}
    assert brief.keys() < ours.keys()


def test_a_check_of_the_answer_adds_one_layer():
    """Its attention and SwiGLU at width 256, tokens of answers, and two vectors."""
    params = PrrModelParams(scorer_checks=True)
    model = build_model(params, ARC, loss=LATENT_PRESETS["ours"].loss)
    added = sum(weight.numel() for weight in model.scorer.check.parameters())
    assert added == 4 * 256**2 + 3 * 256 * 768 + 12 * 256 + 2 * 256


def test_prr_and_trm_share_their_core():
    """At equal width and depth the stack of blocks is the same, so passes can be compared."""
    trm = PrrModelParams(kind="trm", num_branches=1)
    loss = LATENT_PRESETS["ours"].loss
    one, other = (build_model(params, ARC, loss=loss) for params in (PrrModelParams(), trm))
    assert [p.shape for p in one.core.parameters()] == [p.shape for p in other.core.parameters()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "trm"}, "num_branches=8; kind=trm has one branch"),
        ({"width": 20, "heads": 4}, "width=20 is not a multiple of 2 x heads=4"),
    ],
)
def test_invalid_models_are_refused(changes, message):
    """Params are validated before weights are allocated; the error names the value."""
    with pytest.raises(ValueError, match=message):
        PrrModelParams(**changes)
