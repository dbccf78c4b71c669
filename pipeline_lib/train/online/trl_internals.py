"""All overrides of private names of TRL and transformers, each with its reason.

pyproject.toml caps both libraries at the minor versions that these were written against. A test lists
the overrides, and fails on one in any other module.

Axes: B paths of a draw, P prompts, N paths of a prompt, K parts of a reward.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from datasets import Dataset
from torch.distributed.fsdp import FSDPModule
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.grpo_trainer import GRPOTrainer
from typing_extensions import override

from pipeline_lib.train.advantages.prefixes import prefix_advantages
from pipeline_lib.train.advantages.rules import AdvantageRule, compute_advantages
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.online.unpadded_logprobs import UnpaddedScorer
from pipeline_lib.train.phases import LOGPROB_GAP, count_tokens
from pipeline_lib.train.token_budget import BRANCH_TOKENS, Tokens, count_reused


class UnpaddedLogprobs:
    """Mixin that scores paths in passes without padding.

    Listed before GRPOTrainer among the bases, which calls these methods on itself and has no argument that
    would replace them.
    """

    _grad_B: torch.Tensor | None = None
    """Rows whose loss has a gradient, while a loss is computed."""
    _logprobs_BC: torch.Tensor
    """Of the last loss."""

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """TRL's loss. Overridden since only here the advantages are available to the scoring below."""
        trainer: Any = self
        all_rows = trainer.beta != 0 or getattr(trainer, "_entropy_bonus_enabled", False)
        # Of a path, or of its tokens.
        self._grad_B = (
            None
            if all_rows
            else (inputs["advantages"] != 0).view(len(inputs["advantages"]), -1).any(1)
        )
        try:
            loss: torch.Tensor = super()._compute_loss(model, inputs)  # type: ignore[misc]
        finally:
            self._grad_B = None
        return loss

    def _get_per_token_logps_and_entropies(  # noqa: PLR0913 - TRL's signature
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        *,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **images: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Log-probabilities [B, C], entropies [B, C] or None, auxiliary loss or None.

        Overridden since TRL scores a batch as one rectangle, padding included.
        """
        rectangle = super()._get_per_token_logps_and_entropies  # type: ignore[misc]
        given = {name: value for name, value in images.items() if value is not None}
        if compute_aux_loss or given or isinstance(model, FSDPModule):
            # Images are not stored by row, experts are balanced over a whole batch, and the processes that share
            # weights must make equally many passes.
            scored: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None] = rectangle(
                model,
                input_ids,
                attention_mask,
                logits_to_keep,
                batch_size,
                compute_entropy=compute_entropy,
                compute_aux_loss=compute_aux_loss,
                **given,
            )
            self._logprobs_BC = scored[0].detach()
            return scored
        scorer = UnpaddedScorer(
            model=model,
            score_rectangle=partial(rectangle, compute_entropy=compute_entropy),
            autocast=self.accelerator.autocast,  # type: ignore[attr-defined]
            ids_BPC=input_ids,
            mask_BPC=attention_mask,
            width=logits_to_keep,
        )
        grad_B = self._grad_B
        if grad_B is None:
            grad_B = torch.ones(len(input_ids), dtype=torch.bool, device=input_ids.device)
        scores = scorer.score(grad_B=grad_B, max_rows=batch_size or len(input_ids))
        self._logprobs_BC = scores[0].detach()
        return scores[0], scores[1] if compute_entropy else None, None


class GroupAdvantages:
    """Mixin that replaces TRL's advantages by the result of an `AdvantageRule`.

    This is the one seam between advantage rules and TRL, which computes advantages inline, between
    drawing and logging. TRL's own metrics of rewards are left as they are.
    """

    _rewards_BK: torch.Tensor
    """Rewards of the last draw, of all processes."""

    def __init__(
        self,
        *,
        advantage_rule: AdvantageRule,
        held: Callable[[], Sequence[Sequence[int]]] | None = None,
        **options: Any,
    ) -> None:
        """``held`` is as of `Rewards`."""
        super().__init__(**options)
        self._advantage_rule, self._held = advantage_rule, held

    def _calculate_rewards(self, *inputs: Any) -> torch.Tensor:
        """TRL's rewards [B, K]. Overridden to keep them for the method below."""
        self._rewards_BK = super()._calculate_rewards(*inputs)  # type: ignore[misc]
        return self._rewards_BK

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's result with other ``advantages`` of this process: [B] or a part of it, [B, T] with ``held``."""
        trainer: Any = self
        scored: dict[str, Any] = super()._generate_and_score_completions(  # type: ignore[misc]
            inputs
        )
        size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        rewards_PNK = self._rewards_BK.view(-1, size, self._rewards_BK.shape[1])
        parts = [rewards_PNK] if self._held is None else torch.split(rewards_PNK, 1, dim=-1)
        found = [compute_advantages(self._advantage_rule, part).flatten() for part in parts]
        start = trainer.accelerator.process_index * len(inputs)
        advantages_BK = torch.stack(found, dim=1)[start : start + len(inputs)]
        scored["advantages"] = advantages_BK[:, 0]
        if self._held is not None:
            tokens_BC = torch.tensor(self._held(), device=advantages_BK.device)
            width = scored["completion_ids"].shape[1]
            scored["advantages"] = prefix_advantages(advantages_BK, tokens_BC, width=width)
        return scored

    def count_processed_tokens(self) -> Tokens:
        """Tokens of the drawn paths, prompts included."""
        trainer: Any = self
        seen, log = int(trainer.state.num_input_tokens_seen), trainer.state.log_history
        return count_reused(seen, passes=trainer.num_iterations, log=log)


class VerifiedGrpoTrainer(GroupAdvantages, UnpaddedLogprobs, GRPOTrainer):
    """TRL's trainer, with ratios to the policy that drew the paths also where another engine did."""

    def __init__(self, *, use_sampling_logprobs: bool, draws: bool, **options: Any) -> None:
        super().__init__(**options)
        self._use_sampling_logprobs = use_sampling_logprobs
        self._draws = draws

    @override
    def count_processed_tokens(self) -> Tokens:
        """Tokens of the paths, prompts included; stored paths were drawn before."""
        counted = super().count_processed_tokens()
        return counted if self._draws else replace(counted, drawn=0)

    @override
    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """TRL's loss. At the first update on a draw its log-probabilities are compared with the sampler's."""
        loss = super()._compute_loss(model, inputs)
        is_first = self.state.global_step % self.num_iterations == 0
        sampler_BC = inputs.get("sampling_per_token_logps")
        if self._draws and model.training and is_first and sampler_BC is not None:
            mask_BC = inputs["completion_mask"]
            gaps_BC = (self._logprobs_BC - sampler_BC).abs() * mask_BC
            sums_2 = torch.stack([gaps_BC.sum(), mask_BC.sum()]).reshape(1, 2)
            gap, tokens = self.accelerator.gather(sums_2).sum(0).tolist()
            if tokens:
                # Without the last bits, which differ between processors.
                self._metrics["train"][LOGPROB_GAP].append(round(gap / tokens, 5))
        return loss

    @override
    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's result; its old log-probabilities are the trainer's own, except under its own vLLM."""
        scored = super()._generate_and_score_completions(inputs)
        if self._use_sampling_logprobs:
            scored["old_per_token_logps"] = scored["sampling_per_token_logps"]
        own = sum(row.get(BRANCH_TOKENS, 0) for row in inputs)
        if branch_tokens := sum(present_devices().gather([own])):
            self._metrics["train"][BRANCH_TOKENS].append(branch_tokens)
        return scored


class TokenizedDpoTrainer(DPOTrainer):
    """TRL's trainer on rows of token ids, which counts their tokens."""

    @override
    def _prepare_dataset(self, dataset: Dataset, *_: Any) -> Dataset:
        """The rows as they are. TRL takes texts alone, and lets tokens reach from prompt to completion."""
        return dataset

    def count_processed_tokens(self) -> Tokens:
        """Tokens of both completions of every pair, each with its prompt."""
        columns = ("prompt_ids", "prompt_ids", "chosen_ids", "rejected_ids")
        return Tokens(trained=count_tokens(self.train_dataset, *columns))
