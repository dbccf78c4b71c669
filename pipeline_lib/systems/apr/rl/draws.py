"""Rollouts of Countdown prompts under the present weights of a model in this process.

Draws are made in waves: all parents, then all children, then all joins. Batches follow from the prompts and
what was drawn before, so a step that is begun again gives the same tokens, rounding included.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.draws import WaveDraws, open_live
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.systems.apr.countdown.grammar import CountdownGrammar
from pipeline_lib.systems.apr.countdown.sequences import Style
from pipeline_lib.systems.apr.draw_text import TextTokens
from pipeline_lib.systems.apr.rollout import Rollout
from pipeline_lib.systems.apr.rollouts import Row, make_roots, read_gold, rollout_row
from pipeline_lib.systems.apr.runtime import Runtime
from pipeline_lib.systems.apr.scheduler import run_rollouts
from pipeline_lib.train.online.live_rollouts import eval_mode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BATCH = 512
"""Sequences decoded together; more take memory and make a pass no cheaper."""


@dataclass(frozen=True, slots=True)
class InProcessRollouts:
    """A callable as `rollout_fun`, on a model in place of a server."""

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
