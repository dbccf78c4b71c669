"""Group-relative policy optimization by TRL, online: each rollout batch is sampled and verified.

The losses of the family are settings of one trainer. They differ in the rule that makes advantages of
rewards, in the ratio of new to old probability and its clips, and in the averaging of token losses. None
has a KL term: drifting away cannot game a verified reward, and DAPO, Dr. GRPO and GSPO drop the term as
well. The ratio is 1 at the first step on a draw, so clips bind only with more than one.

Source: Shao et al. 2024 (arXiv:2402.03300).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

from transformers import TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from typing_extensions import override

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.train import Method, TrainParams, Variant
from pipeline_lib.train.advantages.gdpo import gdpo
from pipeline_lib.train.advantages.rules import find_rule
from pipeline_lib.train.online.rewards import Rewards
from pipeline_lib.train.online.rollouts import RolloutFunc
from pipeline_lib.train.online.trl_internals import VerifiedGrpoTrainer
from pipeline_lib.train.phases import LOGPROB_GAP, MakeTrainer, Row, select_prompts
from pipeline_lib.train.trainer_settings import TrainerSettings
from pipeline_lib.train.weights.adapters import make_lora_config
from pipeline_lib.train.weights.policies import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """Fields of ``trl.GRPOConfig``."""

    loss_type: Literal["dapo", "grpo", "dr_grpo", "cispo", "luspo"]
    """The average of token losses: over all tokens of the batch (dapo, cispo), over each path and then
    over paths (grpo), their sum divided by paths (luspo), and by the length limit as well (dr_grpo)."""
    importance_sampling_level: Literal["token", "sequence"] = "token"
    """A ratio for each token, or one for a path: the geometric mean of its tokens' ratios."""
    epsilon: float = 0.2
    """The ratio is clipped below at 1 - epsilon, where that lowers the objective."""
    epsilon_high: float = 0.2
    """It is clipped above at 1 + epsilon_high; in cispo at epsilon_high itself."""


LOSSES: Mapping[Variant | Literal[Method.RLOO], tuple[str, _Loss]] = {
    # Yu et al. 2025, arXiv:2503.14476: mean over tokens, higher upper clip. Advantages are unscaled
    # as in Dr. GRPO, where the paper divides: the deviation of a few paths is a noisy estimate.
    Variant.DAPO: ("dr_grpo", _Loss(loss_type="dapo", epsilon_high=0.28)),
    # Shao et al. 2024, arXiv:2402.03300, eq. 3 and section 4.1.2: mean over each path, scaled by the
    # group; it clips as PPO, arXiv:1707.06347. Its KL term is left out.
    Variant.GRPO: ("grpo", _Loss(loss_type="grpo")),
    # Liu et al. 2025, arXiv:2503.20783: neither 1/length nor 1/std, since the first favours long wrong
    # paths, and the second problems that are nearly always or never solved.
    Variant.DR_GRPO: ("dr_grpo", _Loss(loss_type="dr_grpo")),
    # Zheng et al. 2025, arXiv:2507.18071, eq. 5 to 7, clips of section 5.1.
    Variant.GSPO: (
        "grpo",
        _Loss(
            loss_type="grpo",
            importance_sampling_level="sequence",
            epsilon=3e-4,
            epsilon_high=4e-4,
        ),
    ),
    # MiniMax 2025, arXiv:2506.13585: the ratio is a bounded, detached weight, so that
    # no token loses its gradient; there is no lower clip (TRL reads no epsilon here). Bound 5 as in
    # Khatri et al. 2025, arXiv:2510.13786.
    Variant.CISPO: ("grpo", _Loss(loss_type="cispo", epsilon=1.0, epsilon_high=5.0)),
    # Ahmadian et al. 2024, arXiv:2402.14740, after Kool et al. 2019: a path is one action, so a path of T
    # tokens weighs T times its mean token.
    Method.RLOO: ("rloo", _Loss(loss_type="luspo", importance_sampling_level="sequence")),
}
"""The usual advantage rule, a name in `advantages.rules.RULES`, and the loss."""


def trainer_factory(
    rows: Sequence[Row],
    params: TrainParams,
    *,
    rewards: Rewards,
    make_rollouts: Callable[[str], RolloutFunc],
    max_new_tokens: int,
) -> MakeTrainer:
    """A factory of trainers on rows with a ``problem_id`` and a rendered ``prompt``.

    Several rewards take GDPO with their weights, whatever the rule of the loss is.

    ``make_rollouts`` takes a policy's folder or hub id to TRL's rollout function.

    Raises:
        BadInputError: there is no advantage rule of that name.
    """
    usual, loss = LOSSES[Method.RLOO if params.method is Method.RLOO else params.variant]
    rule = find_rule(params.advantage or usual)
    if len(rewards.functions) > 1 and rewards.held is None:
        rule = partial(gdpo, weights_K=rewards.weights)

    def make(policy: Policy, settings: TrainerSettings) -> VerifiedGrpoTrainer:
        trainer = VerifiedGrpoTrainer(
            model=policy.model,
            args=settings.make(
                GRPOConfig,
                **asdict(loss),
                num_generations=params.group_size,
                max_completion_length=max_new_tokens,
                num_iterations=params.updates_per_rollout,
                temperature=1.0,
                # TRL's default of 0 means no cut, but a model's own generation config may set one.
                top_k=0,
                top_p=1.0,
                shuffle_dataset=False,
                beta=0.0,
                # The verdict on a truncated path is no verdict on its reasoning (DAPO's overlong filtering).
                mask_truncated_completions=True,
                entropy_coef=params.entropy_coef,
                reward_weights=list(rewards.weights),
            ),
            train_dataset=select_prompts(rows, settings, group_size=params.group_size),
            processing_class=policy.tokenizer,
            reward_funcs=list(rewards.functions),
            peft_config=make_lora_config(params.lora),
            rollout_func=make_rollouts(policy.source),
            advantage_rule=rule,
            held=rewards.held,
            # An engine outside the trainer has a slightly different policy, by its rounding; stored paths are of an
            # older one.
            use_sampling_logprobs=params.rollouts != "in_process",
            draws=params.rollouts != "stored",
        )
        trainer.add_callback(_StopAtGap(params.max_logprob_gap))
        return trainer

    return make


class _StopAtGap(TrainerCallback):
    """Ends a training, before its next checkpoint, whose paths are not those of its weights."""

    def __init__(self, most: float) -> None:
        self._most = most

    @override
    def on_log(
        self, args: Any, state: Any, control: Any, logs: Row | None = None, **kwargs: Any
    ) -> None:
        gap = (logs or {}).get(LOGPROB_GAP, 0.0)
        if gap > self._most:
            raise ReasonloopError(
                f"step {state.global_step}: sampler and trainer differ by {gap:.3f} nats in the log-probability of a "
                f"drawn token (train.max_logprob_gap={self._most:g}): the engine has another adapter, base or precision; "
                "mend it and run the same command again to resume, or raise the limit"
            )
