"""The blind bonus: the peers' scores of a problem, dealt to its prefixes by a hash instead of by use.

Any steady preference sharpens a policy, so a gain of accuracy can come from a bonus without any use. The
control has a bonus of the same mean and spread within a problem that prefers prefixes as steadily, and
knows nothing of peers or answers.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pipeline_lib.classmate.fusion import Scores
from pipeline_lib.seeding import child_seed

Asked = tuple[str, str]
"""Problem id and prefix."""


def deal_blindly(
    scores: Scores, asked: Sequence[Asked | None], *, seed: int
) -> dict[str, list[float | None]]:
    """The scores of each peer, permuted among the distinct prefixes of each problem.

    The prefix with the highest hash has the highest score. A path without a score has none here.

    Args:
        scores: by peer, one per path; equal prefixes of a problem have equal scores.
        asked: of each path; None: it was not asked.
        seed: the root seed; the preference is the same in all draws of a training.
    """
    return {name: _dealt(values, asked, seed=seed) for name, values in scores.items()}


def _dealt(
    values: Sequence[float | None], asked: Sequence[Asked | None], *, seed: int
) -> list[float | None]:
    known: dict[str, dict[Asked, float]] = defaultdict(dict)
    for one, value in zip(asked, values, strict=True):
        if one is not None and value is not None:
            known[one[0]][one] = value
    dealt: Mapping[Asked, float] = {
        one: score
        for found in known.values()
        for one, score in zip(
            sorted(found, key=lambda one: child_seed(seed, "classmate", "blind", *one)),
            sorted(found.values()),
            strict=True,
        )
    }
    return [
        None if one is None or value is None else dealt[one]
        for one, value in zip(asked, values, strict=True)
    ]
