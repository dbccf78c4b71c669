"""The blind bonus: the peers' bonus of a problem, dealt to its prefixes by a hash instead of by use.

Any steady preference sharpens a policy, so a gain of accuracy can come from a bonus without any use. The
control pays a bonus with the same mean and spread, among the right paths of a problem and among its wrong
ones, and orders prefixes by their text alone. The first step decides before the rest: one recurs in other
problems and in prefixes of every share, which longer texts seldom do, so this preference can be learned.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, pstdev

from pipeline_lib.seeding import child_seed


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindPath:
    """A path with a bonus: its group, its verdict, and the prefix that peers continued."""

    group: str
    """Of the advantages; without groups, the problem."""
    right: bool
    first_step: str
    prefix: str


def hash_bonus(
    bonuses: Sequence[float | None], paths: Sequence[BlindPath | None], *, seed: int
) -> list[float | None]:
    """The bonuses, dealt among the distinct prefixes of the right paths of a group, and of its wrong ones.

    A prefix gets as many of the sorted bonuses as paths have it, and pays each of these paths their mean.
    Where means differ from the bonuses, they are stretched about their own mean to the deviation of the
    bonuses: 0 for one of eight paths and 1 for seven with another prefix may become 7/4 and 3/4.

    Args:
        bonuses: one per path, behind the gate; None: it has none.
        paths: None: it keeps its bonus.
        seed: the root seed; the preference is the same in all problems and draws of a training.
    """
    places: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for place, path in enumerate(paths):
        if path is not None and bonuses[place] is not None:
            places[path.group, path.right].append(place)
    dealt = [*bonuses]
    for own in places.values():
        found = {place: path for place in own if (path := paths[place]) is not None}
        values = [value for place in own if (value := bonuses[place]) is not None]
        by_prefix = _deal([*found.values()], values, seed=seed)
        for place, path in found.items():
            dealt[place] = by_prefix[path.prefix]
    return dealt


def _deal(
    paths: Sequence[BlindPath], bonuses: Sequence[float], *, seed: int
) -> Mapping[str, float]:
    """A bonus for each prefix of ``paths``; their mean and deviation over paths are those of ``bonuses``."""
    first_steps = {path.prefix: path.first_step for path in paths}
    counts = Counter(path.prefix for path in paths)
    order = sorted(
        counts,
        key=lambda prefix: (
            child_seed(seed, "classmate", "blind", first_steps[prefix]),
            child_seed(seed, "classmate", "blind", prefix),
        ),
    )
    left = iter(sorted(bonuses))
    blocks = {prefix: [*islice(left, counts[prefix])] for prefix in order}
    means = {prefix: fmean(block) for prefix, block in blocks.items()}
    if all(block[0] == block[-1] for block in blocks.values()):
        return {prefix: block[0] for prefix, block in blocks.items()}
    center = fmean(bonuses)
    spread = pstdev(means[path.prefix] for path in paths)
    stretch = pstdev(bonuses) / spread if spread else 1.0
    return {prefix: center + stretch * (mean - center) for prefix, mean in means.items()}
