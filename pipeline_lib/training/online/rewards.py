"""The reward of online methods: the strict verdict on a path, as 1 or 0, or None without a verdict."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline_lib.records import Gold
from pipeline_lib.verification.dispatch import Item, Verifier


def verified_reward(
    golds: Mapping[str, Gold], verifier: Verifier
) -> Callable[..., list[float | None]]:
    """The reward: 1 for a path that is strictly right, 0 for one that is not, None where we failed.

    TRL's GRPO and RLOO leave a path without a reward out of its group's baseline and give it no
    advantage, so our failure teaches nothing. ``failed`` is what `rollouts` says of paths that it
    could not draw.
    """

    def verified(
        *,
        completions: Sequence[str],
        problem_id: Sequence[str],
        failed: Sequence[bool] | None = None,
        **_: Any,
    ) -> list[float | None]:
        items = [
            Item(gold=golds[name], text=text)
            for name, text in zip(problem_id, completions, strict=True)
        ]
        lost = failed or [False] * len(items)
        return [
            None if gone or verdict.strict is None else float(verdict.strict)
            for gone, verdict in zip(lost, verifier.judge(items), strict=True)
        ]

    return verified
