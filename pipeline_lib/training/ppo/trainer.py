"""PPO as a trainer of transformers: its loop, checkpoints, schedule and log, with a step of our own.

A step draws new paths, lets critic and reference read them once, and makes ``updates`` passes over
them in ``minibatches`` parts, each with an update of the weights. All of it is one step of the
trainer, so that no checkpoint stands between a draw and its last update: what was drawn need not be
kept, and a run that is continued does what an unbroken one does.

The subclass is the seam that transformers offers. It overrides the step, and what checkpoints and log
lines hold besides.
"""

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from peft import get_peft_model
from torch.nn.utils import clip_grad_norm_
from transformers import Trainer, TrainingArguments
from typing_extensions import override

from pipeline_lib.params.train import LoraParams, PpoParams
from pipeline_lib.seeding import child_generator
from pipeline_lib.training.online.rollout_settings import prompts_of
from pipeline_lib.training.online.rollouts import PathSource
from pipeline_lib.training.phases import MakeTrainer, Row
from pipeline_lib.training.ppo import losses
from pipeline_lib.training.ppo.drawing import JudgedPaths, Reward
from pipeline_lib.training.ppo.experience import Experience, experienced
from pipeline_lib.training.ppo.losses import TokenMeans
from pipeline_lib.training.ppo.path_batch import PathBatch, collated
from pipeline_lib.training.ppo.token_scores import Reference, TokenScores, logprobs, scored
from pipeline_lib.training.ppo.value_head import ValueHead
from pipeline_lib.training.token_budget import Tokens, reused
from pipeline_lib.training.weights.adapters import lora_config
from pipeline_lib.training.weights.policies import Policy

_PATHS_OF_A_PASS = 128
"""More go through the model no faster, and the longest of them makes all of them long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a step does."""

    params: PpoParams
    group_size: int
    """Paths a prompt; PPO compares none of them with each other."""
    updates: int
    """Passes over the paths of a draw."""
    entropy_coef: float
    """Weight of the mean entropy of a token (nats), which is rewarded."""
    lora: LoraParams


def trainer_maker(
    rows: Sequence[Row], *, reward: Reward, source_of: Callable[[str], PathSource], plan: Plan
) -> MakeTrainer:
    """The trainer on rows with a ``problem_id`` and a rendered ``prompt``.

    Args:
        rows: the problems to draw paths for.
        reward: what a path is worth, or None where our side failed.
        source_of: opens what draws the paths, for the policy of a folder or hub id.
        plan: what a step does with them.
    """

    def make(policy: Policy, settings: Mapping[str, Any]) -> Trainer:
        return PpoTrainer(policy, settings, rows, reward, source_of(policy.source), plan)

    return make


class PpoTrainer(Trainer):
    """Draws, judges, estimates and updates: see the module."""

    def __init__(
        self,
        policy: Policy,
        settings: Mapping[str, Any],
        rows: Sequence[Row],
        reward: Reward,
        source: PathSource,
        plan: Plan,
    ) -> None:
        self._plan, self._reward, self._source = plan, reward, source
        self._tokenizer = policy.tokenizer
        micro_batch = settings["per_device_train_batch_size"]
        self._pass_size = min(micro_batch, _PATHS_OF_A_PASS)
        paths = micro_batch * settings["gradient_accumulation_steps"]
        whole = {
            "per_device_train_batch_size": paths // plan.group_size,
            "gradient_accumulation_steps": 1,
            "remove_unused_columns": False,
        }
        args = TrainingArguments(**{**settings, **whole})
        charged = plan.params.kl_coef > 0
        self._reference = Reference.of(policy.model, plan.lora, args.device) if charged else None
        super().__init__(
            model=_with_adapters(policy.model, plan.lora, args),
            args=args,
            train_dataset=prompts_of(rows, settings, group_size=plan.group_size),
            data_collator=_as_they_are,
            processing_class=policy.tokenizer,
        )
        channels = policy.model.config.get_text_config().hidden_size
        self.value_head = ValueHead(channels).to(args.device)
        self._end_ids = _end_ids(policy)
        self._figures: dict[str, float] = {}

    @override
    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """Everything up to the last update of the weights, which the trainer's loop makes."""
        del num_items_in_batch  # It counts labels, of which there are none.
        # The trainer's loop knows of the policy's gradients alone.
        self.value_head.zero_grad()
        judged = self._judged(model, inputs)
        self._figures = judged.figures()
        paths = judged.counting()
        if not paths:
            # Without gradients the update that follows moves nothing.
            return torch.zeros((), device=self.args.device)
        pad_id = self._tokenizer.pad_token_id
        experience = self._read(model, collated(paths, pad_id=pad_id, device=self.args.device))
        self._figures |= experience.figures()
        means = TokenMeans()
        model.train()
        for number, places in enumerate(self._minibatches(len(paths))):
            if number:
                self._update(model)
            self._add_gradients(model, experience.part(places), means)
        self._figures |= means.means()
        return torch.tensor(self._figures.pop("objective"), device=self.args.device)

    def _judged(self, model: Any, rows: Sequence[Row]) -> JudgedPaths:
        """A group of new paths for each row, with what they are worth."""
        rows = [row for row in rows for _ in range(self._plan.group_size)]
        paths = self._source.draw(
            [row["prompt"] for row in rows],
            model=self.accelerator.unwrap_model(model),
            tokenizer=self._tokenizer,
            step=self.state.global_step,
        )
        self.state.num_input_tokens_seen += sum(
            len(path.prompt_ids) + len(path.completion_ids) for path in paths
        )
        rewards = self._reward(
            completions=self._tokenizer.batch_decode(
                [path.completion_ids for path in paths], skip_special_tokens=True
            ),
            problem_id=[row["problem_id"] for row in rows],
            failed=[path.failed for path in paths],
        )
        return JudgedPaths(
            paths=paths,
            rewards=rewards,
            end_ids=self._end_ids,
            group_size=self._plan.group_size,
        )

    @torch.no_grad()
    def _read(self, model: Any, batch: PathBatch) -> Experience:
        """What policy, critic and reference say of the paths before any update."""
        model.eval()
        passes = batch.passes(self._pass_size)
        parts = [batch.part(places) for places in passes]
        scores = [self._scored(model, part) for part in parts]
        logprobs_BT = batch.joined(passes, [score.logprobs_BT for score in scores])
        values_BT = batch.joined(passes, [score.values_BT for score in scores])
        reference_BT = None
        if self._reference is not None:
            with self._reference.opened(self.accelerator.unwrap_model(model)) as reference:
                reference_BT = batch.joined(passes, [logprobs(reference, part) for part in parts])
            divergences_BT = losses.divergences(logprobs_BT, reference_BT)
            self._figures["kl"] = losses.mean(divergences_BT, batch.mask_BT)
        return experienced(
            batch, logprobs_BT, values_BT, self._plan.params, reference_BT=reference_BT
        )

    def _minibatches(self, count: int) -> Iterator[torch.Tensor]:
        """Places of the paths of each update."""
        for turn in range(self._plan.updates):
            names = ("minibatches", self.state.global_step, turn)
            order = child_generator(self.args.seed, *names).permutation(count)
            for places in np.array_split(order, min(self._plan.params.minibatches, count)):
                yield torch.from_numpy(places)

    def _add_gradients(self, model: Any, experience: Experience, means: TokenMeans) -> None:
        """Gradients of the mean loss of a token, over micro-batches."""
        tokens = experience.batch.mask_BT.sum()
        for places in experience.batch.passes(self._pass_size):
            part = experience.part(places)
            scores = self._scored(model, part.batch)
            self.accelerator.backward(self._summed_loss(part, scores, means) / tokens)
        # Apart from the policy's, so that a critic that is far off does not slow the policy down.
        clip_grad_norm_(self.value_head.parameters(), self.args.max_grad_norm)

    def _scored(self, model: Any, batch: PathBatch) -> TokenScores:
        return scored(
            model,
            self.value_head,
            batch,
            body_share=self._plan.params.value_coef,
            entropy_gradient=self._plan.entropy_coef > 0,
        )

    def _summed_loss(
        self, experience: Experience, scores: TokenScores, means: TokenMeans
    ) -> torch.Tensor:
        params, mask_BT = self._plan.params, experience.batch.mask_BT
        old_BT = experience.logprobs_BT
        policy_BT = losses.policy_losses(
            scores.logprobs_BT, old_BT, experience.advantages_BT, clip=params.clip
        )
        value_BT = losses.value_losses(
            scores.values_BT, experience.values_BT, experience.returns_BT, clip=params.value_clip
        )
        objective_BT = policy_BT - self._plan.entropy_coef * scores.entropies_BT
        means.add(
            mask_BT,
            objective=objective_BT,
            value_loss=value_BT,
            entropy=scores.entropies_BT,
            clip_fraction=losses.clipped(scores.logprobs_BT, old_BT, clip=params.clip),
            update_kl=losses.divergences(old_BT, scores.logprobs_BT),
        )
        # The critic's own weight is its rate; how much of this reaches the body, the head decides.
        return losses.total(objective_BT + value_BT, mask_BT)

    def _update(self, model: Any) -> None:
        """What the trainer's loop does after the last of a step's gradients."""
        assert self.optimizer is not None
        self.accelerator.clip_grad_norm_(model.parameters(), self.args.max_grad_norm)
        self.optimizer.step()
        model.zero_grad()
        self.value_head.zero_grad()

    def tokens_read(self) -> Tokens:
        """Tokens of the drawn paths, prompts included."""
        return reused(int(self.state.num_input_tokens_seen), passes=self._plan.updates)

    @override
    def create_optimizer(self, model: Any = None) -> Any:
        """The policy's, with the critic at a rate of its own."""
        if self.optimizer is None:
            optimizer = super().create_optimizer(model)
            optimizer.add_param_group(
                {
                    "params": list(self.value_head.parameters()),
                    "lr": self._plan.params.value_lr,
                    "weight_decay": 0.0,
                }
            )
        return self.optimizer

    @override
    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        super()._save(output_dir, state_dict)
        self.value_head.save(pathlib.Path(output_dir or str(self.args.output_dir)))

    @override
    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        self.value_head.load(pathlib.Path(resume_from_checkpoint))

    @override
    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """A line of a step gets the step's figures."""
        super().log({**logs, **self._figures} if "loss" in logs else logs, start_time)


def _as_they_are(rows: list[Any]) -> Any:
    """The collator: prompts become tensors only with the paths that are drawn for them."""
    return rows


def _with_adapters(model: Any, lora: LoraParams, args: TrainingArguments) -> Any:
    config = lora_config(lora)
    if config is None:
        return model
    if args.gradient_checkpointing:
        # The frozen embeddings would otherwise cut the gradient before the first checkpoint.
        model.enable_input_require_grads()
    return get_peft_model(model, config)


def _end_ids(policy: Policy) -> frozenset[int]:
    """The tokens that end a path; a model may have several."""
    declared = policy.model.generation_config.eos_token_id
    ids = declared if isinstance(declared, list) else [declared]
    return frozenset(i for i in [*ids, policy.tokenizer.eos_token_id] if i is not None)
