"""The reward of online methods: the strict verdict on a path as 1 or 0, None without a verdict."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline_lib.kinds.kind import Gold
from pipeline_lib.verification.dispatch import Item, Verifier


def make_verified_reward(
    golds: Mapping[str, Gold], verifier: Verifier
) -> Callable[..., list[float | None]]:
    """A reward function: 1 for a strictly correct path, 0 for a wrong one, None without a verdict.

    None keeps a path out of its group's baseline and gives it no advantage, so a verifier's failure
    trains nothing. ``failed`` marks paths that could not be drawn.
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
