"""The losses of the GRPO family as settings of TRL's trainer, each with its source.

They differ in the rule that makes advantages of rewards, in the ratio of new to old probability and its
clips, and in the averaging of token losses. None has a KL term: drifting away cannot game a verified
reward, and DAPO, Dr. GRPO and GSPO drop the term as well. The ratio is 1 at the first step on a draw, so
clips bind only with more than one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipeline_lib.params.train import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A loss of the family. Fields other than ``advantage`` are those of ``trl.GRPOConfig``."""

    advantage: str
    """A name in `advantages.rules.RULES`: its usual rule."""
    loss_type: Literal["dapo", "grpo", "dr_grpo", "cispo"]
    """The average of token losses: over all tokens of the batch (dapo, cispo), over each path and then
    over paths (grpo), or their sum divided by paths times the length limit (dr_grpo)."""
    importance_sampling_level: Literal["token", "sequence"] = "token"
    """A ratio for each token, or one for a path: the geometric mean of its tokens' ratios."""
    epsilon: float
    """The ratio is clipped below at 1 - epsilon, where that lowers the objective."""
    epsilon_high: float
    """It is clipped above at 1 + epsilon_high; in cispo at epsilon_high itself."""

    def settings(self) -> dict[str, Any]:
        """Keyword arguments for the config."""
        return {
            "loss_type": self.loss_type,
            "importance_sampling_level": self.importance_sampling_level,
            "epsilon": self.epsilon,
            "epsilon_high": self.epsilon_high,
        }


LOSSES: Mapping[Variant, Loss] = {
    # Yu et al. 2025, arXiv:2503.14476: mean over tokens, higher upper clip. Advantages are unscaled
    # as in Dr. GRPO, where the paper divides: the deviation of a few paths is a noisy estimate.
    Variant.DAPO: Loss(advantage="dr_grpo", loss_type="dapo", epsilon=0.2, epsilon_high=0.28),
    # Shao et al. 2024, arXiv:2402.03300, eq. 3 and section 4.1.2: mean over each path, scaled by the
    # group; the clip is that of PPO, arXiv:1707.06347. Its KL term is left out.
    Variant.GRPO: Loss(advantage="grpo", loss_type="grpo", epsilon=0.2, epsilon_high=0.2),
    # Liu et al. 2025, arXiv:2503.20783: neither 1/length nor 1/std, since the first favours long wrong
    # paths, and the second problems that are nearly always or never solved.
    Variant.DR_GRPO: Loss(advantage="dr_grpo", loss_type="dr_grpo", epsilon=0.2, epsilon_high=0.2),
    # Zheng et al. 2025, arXiv:2507.18071, eq. 5 to 7, clips of section 5.1.
    Variant.GSPO: Loss(
        advantage="grpo",
        loss_type="grpo",
        importance_sampling_level="sequence",
        epsilon=3e-4,
        epsilon_high=4e-4,
    ),
    # MiniMax 2025, arXiv:2506.13585: the ratio is a bounded, detached weight, so that
    # no token loses its gradient; there is no lower clip (TRL reads no epsilon here). Bound 5 as in
    # Khatri et al. 2025, arXiv:2510.13786.
    Variant.CISPO: Loss(advantage="grpo", loss_type="cispo", epsilon=1.0, epsilon_high=5.0),
}
