"""Paths of a training step from the stored paths of a round, which another policy drew: off-policy training."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline_lib.engines.tokens import encode_prompt
from pipeline_lib.errors import BadInputError
from pipeline_lib.records import Path
from pipeline_lib.seeding import child_generator
from pipeline_lib.train.online.rollouts import DrawnPath, StepPlaces
from pipeline_lib.train.phases import Row


@dataclass(kw_only=True)
class StoredRollouts:
    """Stored paths with their token ids and recorded log-probabilities. Implements PathSource.

    The log-probabilities are the behaviour policy's: of the policy that drew the paths, at a temperature of 1.
    """

    paths: Mapping[str, Sequence[Path]]
    """By rendered prompt."""
    seed: int
    _places: StepPlaces = field(default_factory=StepPlaces, init=False)

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[DrawnPath]:
        """As many different stored paths of each prompt as it is given times, chosen anew at each step.

        A group beyond the stored paths is filled with failed ones, which get no reward.
        """
        del model  # it draws nothing
        found: list[DrawnPath] = []
        groups = [(prompt, len([*group])) for prompt, group in itertools.groupby(prompts)]
        first = self._places.take(len(groups), step=step)
        for place, (prompt, size) in enumerate(groups, first):
            stored = self.paths[prompt]
            order = child_generator(self.seed, "stored", step, place)
            chosen = [stored[place] for place in order.permutation(len(stored))[:size]]
            ids = encode_prompt(tokenizer, prompt)
            found += [
                DrawnPath(
                    prompt_ids=ids,
                    completion_ids=path.token_ids or (),
                    logprobs=path.token_logprobs or (),
                )
                for path in chosen
            ]
            nothing = DrawnPath(
                prompt_ids=ids,
                completion_ids=(tokenizer.eos_token_id,),
                logprobs=(0.0,),
                failed=True,
            )
            found += [nothing] * (size - len(chosen))
        return found


def stored_by_prompt(rows: Sequence[Row], paths: Sequence[Path]) -> dict[str, list[Path]]:
    """The paths of the problems of ``rows`` by the prompt of their row, without those whose request failed.

    Raises:
        BadInputError: a path has no token ids or log-probabilities of the policy's tokenizer.
    """
    prompts = {row["problem_id"]: str(row["prompt"]) for row in rows}
    found: dict[str, list[Path]] = {prompt: [] for prompt in prompts.values()}
    for path in paths:
        if path.error is not None or path.problem_id not in prompts:
            continue
        if not path.token_ids or len(path.token_logprobs or ()) != len(path.token_ids):
            raise BadInputError(
                f"train.rollouts=stored: path {path.id} has no token ids with log-probabilities; sample with "
                "sample.keep_tokens=true, by an engine that reports them and has the policy's tokenizer"
            )
        found[prompts[path.problem_id]].append(path)
    return found
