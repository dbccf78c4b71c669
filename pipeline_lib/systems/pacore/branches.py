"""Branches of a training step: paths that the present policy draws, and whose messages its syntheses see."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pipeline_lib.engines.chat_model import Conversation
from pipeline_lib.engines.tokens import decode_completion
from pipeline_lib.params.pacore import EpisodeParams
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.pacore.solution import PromptForm
from pipeline_lib.train.online.rollouts import DrawnPath, PathSource


@dataclass(frozen=True, slots=True)
class DrawnBranches:
    """Draws branches, compacts them, and draws the syntheses of them. Implements PathSource.

    Branches have no reward of their own and no gradient. The syntheses of a group have the same references, since their
    advantages are relative to each other.
    """

    source: PathSource
    """Draws branches and syntheses."""
    conversations: Mapping[str, Conversation]
    """By the prompt of an episode, whose own references are not shown."""
    form: PromptForm
    params: EpisodeParams
    seed: int

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[DrawnPath]:
        """One synthesis for each prompt of an episode, by the present weights of ``model``."""
        draw = partial(self.source.draw, model=model, tokenizer=tokenizer, step=step)
        groups = [(prompt, len([*same])) for prompt, same in itertools.groupby(prompts)]
        counts = [
            child_random(self.seed, "branches", step, prompt).randint(*self.params.references)
            for prompt, _ in groups
        ]
        asked: list[str] = []
        for (prompt, _), count in zip(groups, counts, strict=True):
            asked += [self.form.fit(self.conversations[prompt], ()).text] * count
        branches = draw(asked)
        left, asked = iter(branches), []
        for (prompt, size), count in zip(groups, counts, strict=True):
            drawn = itertools.islice(left, count)
            texts = [decode_completion(tokenizer, one.completion_ids) for one in drawn]
            messages = [self.form.message_of(text) if text else None for text in texts]
            known = [(path, message) for path, message in enumerate(messages) if message]
            asked += [self.form.fit(self.conversations[prompt], known).text] * size
        first, *others = draw(asked)
        spent = sum(len(one.prompt_ids) + len(one.completion_ids) for one in branches)
        return [replace(first, branch_tokens=spent), *others]
