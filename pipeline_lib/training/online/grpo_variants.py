"""The losses of the GRPO family as settings of TRL's trainer, each with where it comes from.

They differ in three things: how rewards become advantages, what the ratio of new to old
probability is taken over and where it is clipped, and how token losses become one number. None has
a KL term: a verified reward cannot be gamed by drifting away, and DAPO, Dr. GRPO and GSPO drop it.
The ratio is 1 at the first step on a draw, so clips bind only where there are more.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pipeline_lib.params.train import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Field names and values are those of ``trl.GRPOConfig``."""

    loss_type: Literal["dapo", "grpo", "dr_grpo", "cispo"]
    """How token losses are averaged: over all tokens of the batch (dapo, cispo), over each path and
    then over paths (grpo), or as a sum over paths times the length limit (dr_grpo)."""
    scale_rewards: Literal["none", "group"]
    """Whether an advantage is divided by the standard deviation of its group's rewards."""
    importance_sampling_level: Literal["token", "sequence"] = "token"
    """Whether each token has a ratio, or a path has one: the geometric mean of its tokens'."""
    epsilon: float
    """The ratio is clipped below at 1 - epsilon, where that lowers the objective."""
    epsilon_high: float
    """It is clipped above at 1 + epsilon_high; in cispo at epsilon_high itself."""

    def settings(self) -> dict[str, Any]:
        """Keyword arguments for the config."""
        return asdict(self)


LOSSES: Mapping[Variant, Loss] = {
    # Yu et al. 2025, arXiv:2503.14476: mean over tokens, higher upper clip. Advantages are unscaled
    # as in Dr. GRPO, where the paper divides: of few paths the deviation is a noisy figure.
    Variant.DAPO: Loss(loss_type="dapo", scale_rewards="none", epsilon=0.2, epsilon_high=0.28),
    # Shao et al. 2024, arXiv:2402.03300, eq. 3 and section 4.1.2: mean over each path, scaled by the
    # group; the clip is that of PPO, arXiv:1707.06347. Its KL term is left out.
    Variant.GRPO: Loss(loss_type="grpo", scale_rewards="group", epsilon=0.2, epsilon_high=0.2),
    # Liu et al. 2025, arXiv:2503.20783: neither 1/length nor 1/std, since the one favours long wrong
    # paths, and the other problems that are nearly always or never solved.
    Variant.DR_GRPO: Loss(loss_type="dr_grpo", scale_rewards="none", epsilon=0.2, epsilon_high=0.2),
    # Zheng et al. 2025, arXiv:2507.18071, eq. 5 to 7, clips of section 5.1.
    Variant.GSPO: Loss(
        loss_type="grpo",
        scale_rewards="group",
        importance_sampling_level="sequence",
        epsilon=3e-4,
        epsilon_high=4e-4,
    ),
    # MiniMax 2025, arXiv:2506.13585: the ratio is a bounded, detached weight, so that
    # no token loses its gradient; there is no lower clip (TRL reads no epsilon here). Bound 5 as in
    # Khatri et al. 2025, arXiv:2510.13786.
    Variant.CISPO: Loss(loss_type="cispo", scale_rewards="group", epsilon=1.0, epsilon_high=5.0),
}
