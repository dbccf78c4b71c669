"""Settings of PRR and TRM by name, for benchmarks and tests; the profiles prr-published-arc and prr-trm hold them."""

from pipeline_lib.params.prr import PrrLossParams, PrrModelParams
from pipeline_lib.params.sections import Section


class LatentPreset(Section):
    """A model with its loss."""

    model: PrrModelParams = PrrModelParams()
    loss: PrrLossParams = PrrLossParams()


LATENT_PRESETS = {
    "ours": LatentPreset(),
    "brief": LatentPreset(
        model=PrrModelParams(
            branch_vectors=False,
            start_noise=0.1,
            alpha=0.1,
            scorer_reads="first",
            scorer_certainty=False,
            scorer_checks=False,
        ),
        loss=PrrLossParams(
            best_of="soft_min",
            floor=0,
            tau_start=0.1,
            tau_end=0.1,
            restart_every=0,
            correctness=0.0,
            ranking=1.0,
            ranking_target="best",
            detach_scorer=False,
            diversity=0.1,
            diversity_margin=-1,
        ),
    ),
    "trm": LatentPreset(
        model=PrrModelParams(kind="trm", width=512, heads=8, num_branches=1),
    ),
    "trm-mlp": LatentPreset(
        model=PrrModelParams(kind="trm", width=512, heads=8, num_branches=1, mixer="mlp"),
    ),
}
"""PRR as tuned here ("ours") and as published ("brief"); TRM at its published sizes."""
