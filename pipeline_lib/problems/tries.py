"""Tries of the parts of problems, which tasks have in the column ``tries``; models from scratch are trained on them."""

import random
from collections.abc import Sequence

from pydantic import TypeAdapter

from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.records import Problem

Try = tuple[str, str, bool]
"""The choice, what follows from it, and whether it is right."""
Tries = list[list[Try]]
"""All choices of each part."""
_TRIES: TypeAdapter[Tries] = TypeAdapter(Tries)


def tries_of(problem: Problem, *, where: str) -> Tries:
    """The tries of a problem; BadInputError: it has none, or a part without a right one."""
    with errors_at(f"{where}: column tries"):
        tries = _TRIES.validate_python(problem.columns.get("tries"))
        if not tries or not all(any(one[2] for one in part) for part in tries):
            raise BadInputError(f"problem {problem.id} has a part without a right try")
    return tries


def until_right(draw: random.Random, part: Sequence[Try]) -> list[Try]:
    """Choices of a part in random order, the last of them right."""
    order = draw.sample(part, len(part))
    return order[: 1 + next(place for place, one in enumerate(order) if one[2])]


def text_of(tries: Sequence[Try]) -> str:
    """Tries as a model writes them."""
    return " ".join(f"{choice} {rest}" for choice, rest, _ in tries)
