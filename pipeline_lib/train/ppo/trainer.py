"""PPO as a trainer of transformers: its loop, checkpoints, schedule and log, with a training step for PPO.

A step draws new paths, scores them once with policy, critic and reference, and makes
``updates_per_rollout`` passes over them in ``minibatches`` parts, each with an update of the weights.
"""

import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_
from transformers import Trainer
from typing_extensions import override

from pipeline_lib.engines.embedded.embedded_engine import find_end_ids
from pipeline_lib.engines.tokens import decode_completion
from pipeline_lib.params.train import TrainParams
from pipeline_lib.seeding import child_generator
from pipeline_lib.train.advantages.rules import find_rule
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.online.draw_trainer import DrawTrainer
from pipeline_lib.train.online.rewards import RewardFunction
from pipeline_lib.train.online.rollouts import PathSource
from pipeline_lib.train.phases import MakeTrainer, Row
from pipeline_lib.train.ppo import losses
from pipeline_lib.train.ppo.losses import TokenMeans
from pipeline_lib.train.ppo.path_batch import (
    Experience,
    PathBatch,
    TokenPath,
    collate,
    draw_metrics,
    make_experience,
    select_trainable,
)
from pipeline_lib.train.ppo.token_scores import (
    SaveValueHead,
    TokenScores,
    ValueHead,
    compute_logprobs,
    score_tokens,
)
from pipeline_lib.train.token_budget import BRANCH_TOKENS
from pipeline_lib.train.trainer_settings import TrainerSettings
from pipeline_lib.train.weights.policies import Policy

_MAX_PASS_PATHS = 128
"""A pass over more paths is no faster, and pads all of them to the longest."""


def trainer_factory(
    rows: Sequence[Row],
    params: TrainParams,
    *,
    reward: RewardFunction,
    source_of: Callable[[str], PathSource],
) -> MakeTrainer:
    """A factory of trainers on rows with a ``problem_id`` and a rendered ``prompt``.

    With ``params.advantage`` GAE distributes the group-relative advantage of a path over its tokens, and the
    critic learns the deviation from the group. ``source_of`` takes a policy's folder or hub id to the source
    of its paths.
    """

    def make(policy: Policy, settings: TrainerSettings) -> Trainer:
        return PpoTrainer(policy, settings, rows, params, reward, source_of(policy.source))

    return make


class PpoTrainer(DrawTrainer):
    """Draws, verifies, scores and updates in each step; see the module's docstring."""

    def __init__(
        self,
        policy: Policy,
        settings: TrainerSettings,
        rows: Sequence[Row],
        params: TrainParams,
        reward: RewardFunction,
        source: PathSource,
    ) -> None:
        self._params, self._reward, self._source = params, reward, source
        self._advantage_rule = find_rule(params.advantage) if params.advantage else None
        self._pass_size = min(settings["per_device_train_batch_size"], _MAX_PASS_PATHS)
        super().__init__(
            policy,
            settings,
            rows,
            group_size=params.group_size,
            updates=params.updates_per_rollout,
            lora=params.lora,
            keeps_reference=params.ppo.kl_coef > 0,
        )
        channels = policy.model.config.get_text_config().hidden_size
        self.value_head = ValueHead(channels).to(self.args.device)
        self.add_callback(SaveValueHead(self.value_head))
        self._end_ids = find_end_ids(policy.model, policy.tokenizer)

    @override
    def train(self, resume_from_checkpoint: Any = None, *more: Any, **options: Any) -> Any:
        """Train, from a checkpoint's folder if given; the critic is loaded from it, too."""
        if resume_from_checkpoint:
            self.value_head.load(pathlib.Path(resume_from_checkpoint))
        return super().train(resume_from_checkpoint, *more, **options)

    @override
    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """One step except its last weight update, which the trainer's loop makes."""
        del num_items_in_batch  # It counts labels, of which there are none.
        # Gradients are added up below, not by the wrapper of processes.
        model = self.accelerator.unwrap_model(model)
        # The trainer's loop clears the policy's gradients only.
        self.value_head.zero_grad()
        self._step_metrics = {}
        paths = self._draw(model, inputs)
        if not paths:
            # Without gradients the update that follows changes nothing.
            return torch.zeros((), device=self.args.device)
        pad_id = self._tokenizer.pad_token_id
        batch = collate(paths, pad_id=pad_id, device=self.args.device)
        experience = self._make_experience(model, batch)
        self._step_metrics |= experience.metrics()
        means = TokenMeans()
        model.train()
        for number, places in enumerate(self._minibatches(len(paths))):
            if number:
                self.update(model)
            self._add_gradients(model, experience.part(places), means)
        self._step_metrics |= means.means()
        return torch.tensor(self._step_metrics.pop("objective"), device=self.args.device)

    def _draw(self, model: Any, rows: Sequence[Row]) -> list[TokenPath]:
        """A group of new paths for each row of all processes, with a reward; the reward function logs to the step."""
        rows, devices = [row for row in rows for _ in range(self._group_size)], present_devices()
        paths = self._source.draw(
            [row["prompt"] for row in rows],
            model=model,
            tokenizer=self._tokenizer,
            step=self.state.global_step,
        )
        rewards = self._reward(
            prompts=[row["prompt"] for row in rows],
            completion_ids=[list(path.completion_ids) for path in paths],
            completions=[decode_completion(self._tokenizer, path.completion_ids) for path in paths],
            problem_id=[row["problem_id"] for row in rows],
            failed=[path.failed for path in paths],
            trainer_state=self.state,
            log_metric=self._step_metrics.__setitem__,
        )
        paths, rewards = devices.gather(paths), devices.gather(rewards)
        self.state.num_input_tokens_seen += sum(
            len(path.prompt_ids) + len(path.completion_ids) for path in paths
        )
        if branch_tokens := sum(path.branch_tokens for path in paths):
            self._step_metrics[BRANCH_TOKENS] = branch_tokens
        size = self._group_size
        self._step_metrics |= draw_metrics(paths, rewards, end_ids=self._end_ids, group_size=size)
        return select_trainable(paths, rewards, rule=self._advantage_rule, group_size=size)

    @torch.no_grad()
    def _make_experience(self, model: Any, batch: PathBatch) -> Experience:
        """Scores of the paths by policy, critic and reference before any update."""
        model.eval()
        passes = batch.passes(self._pass_size)
        parts = [batch.part(places) for places in passes]
        scores = [self._score(model, part) for part in parts]
        logprobs_BT = batch.join(passes, [score.logprobs_BT for score in scores])
        values_BT = batch.join(passes, [score.values_BT for score in scores])
        reference_BT = None
        if self._reference is not None:
            # A copied reference lacks the policy's autocast.
            with (
                self.accelerator.autocast(),
                self._reference(model) as reference,
            ):
                reference_BT = batch.join(
                    passes, [compute_logprobs(reference, part) for part in parts]
                )
            kl_BT = losses.k3_kl(logprobs_BT, reference_BT)
            self._step_metrics["kl"] = float(kl_BT[batch.mask_BT].mean())
        return make_experience(
            batch, logprobs_BT, values_BT, self._params.ppo, reference_BT=reference_BT
        )

    def _minibatches(self, count: int) -> Iterator[torch.Tensor]:
        """Places of the paths of each update."""
        for turn in range(self._updates):
            names = ("minibatches", self.state.global_step, turn)
            order = child_generator(self.args.seed, *names).permutation(count)
            for places in np.array_split(order, min(self._params.ppo.minibatches, count)):
                yield torch.from_numpy(places)

    def _add_gradients(self, model: Any, experience: Experience, means: TokenMeans) -> None:
        """Add the gradients of the mean loss of a token, over micro-batches."""
        tokens, devices = experience.batch.mask_BT.sum(), present_devices()
        for places in devices.share(experience.batch.passes(self._pass_size)):
            part = experience.part(places)
            scores = self._score(model, part.batch)
            self.accelerator.backward(self._summed_loss(part, scores, means) / tokens)
        devices.sum_gradients([*model.parameters(), *self.value_head.parameters()])
        # Separately from the policy, so that a large critic loss does not shrink the policy's step.
        clip_grad_norm_(self.value_head.parameters(), self.args.max_grad_norm)

    def _score(self, model: Any, batch: PathBatch) -> TokenScores:
        return score_tokens(
            model,
            self.value_head,
            batch,
            body_share=self._params.ppo.value_coef,
            entropy_gradient=self._params.entropy_coef > 0,
        )

    def _summed_loss(
        self, experience: Experience, scores: TokenScores, means: TokenMeans
    ) -> torch.Tensor:
        params, mask_BT = self._params.ppo, experience.batch.mask_BT
        old_BT = experience.logprobs_BT
        policy_BT = losses.policy_losses(
            scores.logprobs_BT, old_BT, experience.advantages_BT, clip=params.clip
        )
        value_BT = losses.value_losses(
            scores.values_BT, experience.values_BT, experience.returns_BT, clip=params.value_clip
        )
        objective_BT = policy_BT - self._params.entropy_coef * scores.entropies_BT
        means.add(
            mask_BT,
            objective=objective_BT,
            value_loss=value_BT,
            entropy=scores.entropies_BT,
            clip_fraction=losses.clip_indicators(scores.logprobs_BT, old_BT, clip=params.clip),
            update_kl=losses.k3_kl(old_BT, scores.logprobs_BT),
        )
        # No weight on the value loss: `value_lr` scales it for the head, `value_coef` for the body.
        return ((objective_BT + value_BT) * mask_BT).sum()

    @override
    def update(self, model: Any) -> None:
        """As of any such step; the critic's gradients are cleared, too."""
        super().update(model)
        self.value_head.zero_grad()

    @override
    def create_optimizer(self, model: Any = None) -> Any:
        """The policy's optimizer, with the critic as a further group at ``value_lr``."""
        if self.optimizer is None:
            optimizer = super().create_optimizer(model)
            optimizer.add_param_group(
                {
                    "params": list(self.value_head.parameters()),
                    "lr": self._params.ppo.value_lr,
                    "weight_decay": 0.0,
                }
            )
        return self.optimizer
