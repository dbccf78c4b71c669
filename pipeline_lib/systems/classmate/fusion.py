"""From the verified rewards of paths and the success of their peers to the bonus and the reward of each.

Pure arithmetic; None is a missing number, which is never a 0.

A path's score by a peer is the mean success of the peer's continuations. Beside scores of other peers a
missing one is the mean of the peer's scores in the path's group; a path without any score has the mean bonus
of its group, by either aggregation, or none with ``missing=base``. A peer without any score in a group is left out
for all its paths; without any peer their reward is the verified one.

A prefix that leaves a peer no room has no score either, and its path has the score of the group which pays it least,
the smallest, or for a wrong path whose bonus is negated the largest: length would be rewarded otherwise.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, pstdev

from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.seeding import child_seed

Scores = Mapping[str, Sequence[float | None]]
"""By peer: a success in [0, 1] for each path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """In the order of the paths."""

    base: Sequence[float | None]
    """The verified rewards."""
    bonus: Sequence[float | None]
    """What the peers add, before the weight; None without a verified reward or without any peer."""
    reward: list[float | None]
    """The verified reward with the bonus; None without a verified reward."""


def fuse(
    base: Sequence[float | None],
    scores: Scores,
    empty: Scores,
    *,
    params: ClassmateParams,
    group_size: int,
    crowded: Mapping[str, Sequence[bool]] | None = None,
) -> Fused:
    """Bonus and reward of each path.

    Paths without a verified reward belong to no group. Example of one group with weight 1/2, additive:
    verified rewards 1, 0, 1 and scores 1, None, 0 of one peer give the bonuses 1, 1/2, 0 and the rewards
    1 + 1/2, 0 + 1/4, 1 + 0.

    ``base`` are verified rewards, 0 or 1; ``scores`` successes from each path's prefix, ``empty`` from the empty prefix
    of its problem. Paths of a group are adjacent. ``crowded`` has, by peer, the paths whose prefix leaves it no room.
    """
    crowded = crowded or {name: [False] * len(base) for name in scores}
    bonus: list[float | None] = [None] * len(base)
    for start in range(0, len(base), group_size):
        places = [p for p in range(start, start + group_size) if base[p] is not None]
        columns = [
            column
            for name in scores
            if (
                column := _column(
                    scores[name],
                    empty[name],
                    places,
                    relative=params.relative,
                    crowded={
                        place: max if _negates(base[place] or 0.0, params) else min
                        for place in places
                        if crowded[name][place]
                    },
                )
            )
        ]
        known = {
            place: _aggregated([column.scores[place] for column in columns], params)
            - _aggregated([column.empty[place] for column in columns], params)
            for place in places
            if any(place in column.known for column in columns)
        }
        added = (
            dict.fromkeys(places, fmean(known.values()))
            if params.missing == "mean" and known
            else {}
        )
        for place, own in (added | known).items():
            bonus[place] = _gated(own, base[place] or 0.0, params)
    return add_bonus(base, bonus, params)


def add_bonus(
    base: Sequence[float | None], bonus: Sequence[float | None], params: ClassmateParams
) -> Fused:
    """The reward of each path from its verified reward and its bonus."""
    reward = [_reward(verified, added, params) for verified, added in zip(base, bonus, strict=True)]
    return Fused(base=base, bonus=bonus, reward=reward)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A peer in one group, by place of the path, without gaps."""

    scores: Mapping[int, float]
    empty: Mapping[int, float]
    """Zeros where the bonus is not relative."""
    known: Collection[int]
    """Places with a score of their own, or without room for one."""


def _column(
    scores: Sequence[float | None],
    empty: Sequence[float | None],
    places: Sequence[int],
    *,
    relative: bool,
    crowded: Mapping[int, Callable[[Iterable[float]], float]],
) -> _Column | None:
    """The peer's numbers for the paths at ``places``; None if it has none.

    ``crowded`` has the paths without room, each with the choice among the numbers of the group.
    """
    known = {p: value for p in places if (value := empty[p] if relative else 0.0) is not None}
    lifts = {p: score - known[p] for p in places if (score := scores[p]) is not None and p in known}
    if not lifts:
        return None
    mean_empty, mean_lift = fmean(known.values()), fmean(lifts.values())
    without = {p: known.get(p, mean_empty) for p in places}
    missing = {p: crowded[p](lifts.values()) if p in crowded else mean_lift for p in places}
    scores_by_place = {p: without[p] + lifts.get(p, missing[p]) for p in places}
    return _Column(scores=scores_by_place, empty=without, known=lifts.keys() | {*crowded})


def _aggregated(numbers: Sequence[float], params: ClassmateParams) -> float:
    return fmean(numbers) if params.aggregation == "mean" else max(numbers)


def _gated(bonus: float, base: float, params: ClassmateParams) -> float:
    if base > 0 or params.gate == "always":
        return bonus
    # Not -bonus: a relative bonus below 0 would pay a wrong path for misleading the peers.
    return -max(bonus, 0.0) if _negates(base, params) else 0.0


def _negates(base: float, params: ClassmateParams) -> bool:
    return base <= 0 and params.gate == "negative_when_wrong"


def _reward(base: float | None, bonus: float | None, params: ClassmateParams) -> float | None:
    """``normalized`` adds as ``additive`` does; this sum is then a figure, not what is trained on."""
    if base is None or bonus is None:
        return base
    weight = params.classmate_reward_weight
    kept = 1 - weight if params.fusion == "convex" else 1.0
    return kept * base + weight * bonus


@dataclass(frozen=True, slots=True, kw_only=True)
class DealtPath:
    """A path with a bonus: its group, its verdict, and the prefix that peers continued."""

    group: object
    """Of the advantages; without groups, the problem, for each of its cuts."""
    right: bool
    first_step: str
    prefix: str


Deal = Callable[[Sequence[DealtPath], Sequence[float]], Sequence[float]]
"""From some paths and their bonuses to the bonuses that they have in their place."""


def deal_bonus(
    bonuses: Sequence[float | None], paths: Sequence[DealtPath | None], deal: Deal
) -> list[float | None]:
    """The bonuses, dealt among the right paths of a group, and among its wrong ones.

    ``bonuses`` are behind the gate; a path that is None keeps its own.
    """
    places: dict[tuple[object, bool], list[int]] = defaultdict(list)
    for place, path in enumerate(paths):
        if path is not None and bonuses[place] is not None:
            places[path.group, path.right].append(place)
    dealt = [*bonuses]
    for own in places.values():
        found = {place: path for place in own if (path := paths[place]) is not None}
        values = [value for place in own if (value := bonuses[place]) is not None]
        for place, value in zip(found, deal([*found.values()], values), strict=True):
            dealt[place] = value
    return dealt


def deal_by_hash(
    paths: Sequence[DealtPath], bonuses: Sequence[float], *, seed: int
) -> Sequence[float]:
    """A bonus for each distinct prefix; over paths they have the mean and deviation of ``bonuses``.

    A control: any steady preference sharpens a policy, so a gain of accuracy can come from a bonus without any use.
    This one has the same mean and spread and orders prefixes by their text alone. The first step decides before the
    rest: it recurs in other problems and in prefixes of every share, so this preference can be learned.

    A prefix gets as many of the sorted bonuses as paths have it, and pays each of these paths their mean.
    Where means differ from the bonuses, they are stretched about their own mean to the deviation of the
    bonuses: 0 for one of eight paths and 1 for seven with another prefix may become 7/4 and 3/4.

    ``seed`` is the root seed: the preference is the same in all problems and draws of a training.
    """
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
        return [blocks[path.prefix][0] for path in paths]
    center = fmean(bonuses)
    spread = pstdev(means[path.prefix] for path in paths)
    stretch = pstdev(bonuses) / spread if spread else 1.0
    return [center + stretch * (means[path.prefix] - center) for path in paths]
