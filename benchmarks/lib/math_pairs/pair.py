"""The form of generated pairs, and short completions for them."""

from collections.abc import Iterator

Pair = tuple[str, str, bool]
"""A gold, a completion, and True if the completion is right."""


def boxed(answer: str) -> str:
    """A short completion that ends in ``answer``."""
    return f"Thus the answer is $\\boxed{{{answer}}}$."


def right_pairs(*rows: tuple[str, str]) -> Iterator[Pair]:
    """Right answers, boxed, from rows of gold and answer."""
    return ((gold, boxed(answer), True) for gold, answer in rows)


def wrong_pairs(*rows: tuple[str, str]) -> Iterator[Pair]:
    """Wrong answers, boxed, from rows of gold and answer."""
    return ((gold, boxed(answer), False) for gold, answer in rows)
