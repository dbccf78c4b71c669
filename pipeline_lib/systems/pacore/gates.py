"""Gates of a comparison of syntheses with votes: paths state true values, and a synthesis reads its references."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_lib.systems.pacore.trials import GREEDY_LAST, OTHER, JudgedProblem

_TRUE, _LIES, _TAKEN, _ABOVE_CHANCE = 0.999, 0.001, 0.97, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A share of parts in percent; of none it is 0."""

    name: str
    percent: float
    bound: str
    holds: bool
    n: int


def gates_of(problems: Sequence[JudgedProblem]) -> Iterator[Gate]:
    """The gates of a model in their order; none for a task without parts.

    Values are of formed parts of plain paths at the temperature of the run. A part is taken over where a last call has
    it right, of those that some reference has right. Chance is the share of right parts of plain paths.
    """
    plain = [part for one in problems for path in one.parts for part in path]
    if not plain:
        return
    formed = [part for part in plain if part.formed]
    yield _gate("malformed parts", [not part.formed for part in plain])
    yield _gate("true statements", [part.true for part in formed], low=_TRUE)
    yield _gate("claims of right parts", [one.claims for one in formed if one.right], low=_TRUE)
    wrong = [one.claims for one in formed if not one.right]
    yield _gate("claims of wrong parts", wrong, high=_LIES)
    chance = float(np.mean([part.right for part in plain]))
    names = [*problems[0].calls]
    own_names = [one for one in names if not one.startswith(OTHER)]
    for name in [one for one in names if one.endswith(GREEDY_LAST)] or own_names:
        taken = [
            part.right
            for call in (one.calls[name] for one in problems)
            for part, *seen in zip(call.answer, *call.references, strict=True)
            if any(one.right for one in seen)
        ]
        yield _gate(f"right parts taken over, {name}", taken, low=_TAKEN)
    for name in (one for one in names if one.startswith(OTHER)):
        own = [part.right for one in problems for part in one.calls[name].answer]
        yield _gate(f"right parts, {name}", own, high=chance + _ABOVE_CHANCE)


def _gate(name: str, values: Iterable[float], *, low: float = 0.0, high: float = 1.0) -> Gate:
    known = [*map(float, values)]
    share = float(np.mean(known)) if known else 0.0
    bound = f"{100 * low:.1f} to {100 * high:.1f}"
    return Gate(
        name=name, percent=100 * share, bound=bound, holds=low <= share <= high, n=len(known)
    )
