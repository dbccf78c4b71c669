"""Rows of rollouts as rewarded sequences of token ids.

Every sequence is trained on from its first drawn token to its end token. Text that the runtime wrote, a join
or a spawn in the place of a forged one, is in the prefix of the sequence that follows it, so it has no loss.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.draws import WaveDraws, open_live
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.tokens import encode_completion, encode_prompt
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.apr import AprRlParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.systems.apr.countdown.grammar import CountdownGrammar
from pipeline_lib.systems.apr.countdown.search import Style
from pipeline_lib.systems.apr.rollouts import Row, make_roots, read_gold, rollout_row
from pipeline_lib.systems.apr.runtime import Runtime, TextTokens
from pipeline_lib.systems.apr.scheduler import run_rollouts
from pipeline_lib.systems.apr.threads import Role, Rollout
from pipeline_lib.train.offline.token_steps import TokenRow
from pipeline_lib.train.online.live_rollouts import eval_mode
from pipeline_lib.train.rollout_grpo.rollouts import RewardedRollout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BATCH = 512
"""Sequences decoded together; more take memory and make a pass no cheaper."""
_TEMPERATURE = 1.0
"""Of the probabilities in the loss."""
_SPEED_WEIGHT = 0.5
_SPEED_LIMIT = 0.2
_LENGTH_UNIT = 100


RolloutFun = Callable[..., list[Row]]
"""Draws rollouts as `rollouts.rollout_fun` does, with its server and begin token bound; each sequence has ``output_ids``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRollouts:
    """Implements RolloutSource on a callable as `rollout_fun`."""

    rollouts_of: Callable[[Any], RolloutFun]
    """From the policy with its present weights to what draws from it."""
    rl: AprRlParams
    window: int
    seed: int

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[RewardedRollout]:
        """One rollout for each prompt.

        Raises:
            ReasonloopError: every rollout failed, or the engine gives no token ids.
        """
        rows = self.rollouts_of(model)(
            prompts,
            temperature=_TEMPERATURE,
            tokenizer=tokenizer,
            window=self.window,
            seed=child_seed(self.seed, "rl draw", step),
        )
        errors = [reason for row in rows if (reason := _failure(row)) is not None]
        if len(errors) == len(rows):
            raise ReasonloopError(f"step {step + 1}: every rollout failed; the first: {errors[0]}")
        sequences = [one for row in rows for one in row["seqs"]]
        if not any("output_ids" in one for one in sequences):
            raise ReasonloopError(
                "the engine gives no token ids, and training needs those that were drawn; draw in process"
            )
        return [self._rewarded(row, tokenizer) for row in rows]

    def _rewarded(self, row: Row, tokenizer: Any) -> RewardedRollout:
        if _failure(row) is not None:
            return RewardedRollout(sequences=(), reward=None, counts={})
        trained = [one for one in row["seqs"] if one.get("output_ids")]
        counts = count_row(row, tokenizer)
        right = row["is_correct"]
        return RewardedRollout(
            sequences=[_token_row(one, tokenizer) for one in trained],
            reward=reward_of(self.rl, **counts) if right else 0.0,
            counts={
                "accuracy": float(right),
                **counts,
                # Text that was cut within a token: what would be trained on was not drawn.
                "lost_sequences": sum("output_ids" not in one for one in row["seqs"]),
            },
        )


def _failure(row: Row) -> str | None:
    """The reason why a rollout has no reward; with a failed child, a claim may be missing that it would have made."""
    reason: str | None = row.get("error") or row.get("child_error")
    return reason


def reward_of(rl: AprRlParams, *, children: int, drawn_tokens: int, critical_tokens: int) -> float:
    """The reward of a right claim; a wrong one has 0.

    Without that gate a bonus for threads, or a penalty on them, is learned in place of the answer.

    ``drawn_tokens`` are of all threads, end tokens included, ``critical_tokens`` of the parent and each round's longest
    child.
    """
    saved = 1 - critical_tokens / drawn_tokens
    rewards = {
        "binary": 1.0,
        "speed": 1 + _SPEED_WEIGHT * min(saved, _SPEED_LIMIT),
        "threads": max(0.0, 1 - rl.penalty * children),
        "length": max(0.0, 1 - rl.penalty * drawn_tokens / _LENGTH_UNIT),
    }
    return rewards[rl.reward]


def count_row(row: Row, tokenizer: Any) -> dict[str, int]:
    """Children, drawn and critical tokens of a rollout that did not fail."""
    parent, drawn = 0, 0
    children: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for one in row["seqs"]:
        known = "output_ids" in one
        size = len(one["output_ids"] if known else encode_completion(tokenizer, one["output"]))
        drawn += size
        if one["role"] == Role.PARENT:
            parent += size
        else:
            children[one["round"]][one["child"]] += size
    return {
        "children": sum(map(len, children.values())),
        "drawn_tokens": drawn,
        "critical_tokens": parent + sum(max(sizes.values()) for sizes in children.values()),
    }


def _token_row(sequence: Mapping[str, Any], tokenizer: Any) -> TokenRow:
    prefix = encode_prompt(tokenizer, sequence["prefix"])
    return TokenRow(
        ids_L=np.array([*prefix, *sequence["output_ids"]], dtype=np.int32), loss_from=len(prefix)
    )


@dataclass(frozen=True, slots=True)
class InProcessRollouts:
    """A callable as `rollout_fun`, on a model in place of a server.

    All parents are drawn together, then all children, then all joins: a step that is begun again gives the same
    tokens, rounding included.
    """

    model: Any
    style: Style

    def __call__(
        self,
        prefix_list: Sequence[str],
        *,
        temperature: float,
        tokenizer: "PreTrainedTokenizerBase",
        window: int,
        seed: int,
    ) -> list[Row]:
        """As of `rollout_fun`; the model's mode is restored."""
        golds = [read_gold(one, place=f"prefix_list[{i}]") for i, one in enumerate(prefix_list)]
        # A new engine for each call: its memory layout does not depend on earlier ones, and is free for
        # the loss that follows.
        engine = EmbeddedEngine(
            model=self.model, tokenizer=tokenizer, identity="in training", batch_size=_BATCH
        )
        tokens = TextTokens.of(tokenizer)

        async def run() -> list[Rollout]:
            async with open_live(engine) as live:
                runtime = Runtime(
                    grammar=CountdownGrammar(style=self.style),
                    draws=WaveDraws(engine=live),
                    decoding=Decoding(temperature=temperature, max_new_tokens=window),
                    # A wave has all draws that can be made; the engine bounds its batch.
                    slots=asyncio.Semaphore(1 << 30),
                    seed=seed,
                    tokens=tokens,
                    window=window,
                )
                return await run_rollouts(runtime, make_roots(prefix_list))

        with eval_mode(self.model):
            rollouts = asyncio.run(run())
        return [rollout_row(one, gold) for one, gold in zip(rollouts, golds, strict=True)]
