"""The reward of a training with peers, as trainers call it: cut, ask, judge, fuse, log.

The peers answer while the actor's paths are judged. A resumed training asks what an unbroken one asks, and
gets the same answers from a peer that repeats itself for the same call; an engine that batches by arrival
does not, nor does a peer after a missed deadline, which ``failure_rate`` shows.
"""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.params.train import ONLINE, Method, TrainParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.cut import (
    Chain,
    Prefix,
    cut_chain,
    draw_share,
    first_leaks,
    split_steps,
)
from pipeline_lib.systems.classmate.draws import (
    Answered,
    DrawRecord,
    PeerQuery,
    RewardedPath,
    write_draw,
)
from pipeline_lib.systems.classmate.fusion import BlindPath, Fused, add_bonus, fuse, hash_bonus
from pipeline_lib.systems.classmate.peer import Peer, Peers
from pipeline_lib.train.online.rewards import MakeRewards, RewardFunction, Rewards
from pipeline_lib.verify.dispatch import Verifier


def make_classmate_rewards(
    peers: Sequence[Peer],
    problems: Sequence[Problem],
    *,
    params: ClassmateParams,
    train: TrainParams,
    seed: int,
    folder: pathlib.Path,
) -> MakeRewards:
    """The rewards of a training with ``peers``, for `TrainingRequest.make_rewards`.

    With weight 0 the peers are asked and logged, and the reward is the verified one. ``problems`` are of the rows;
    ``folder``, of this training's key alone, is for the draws. BadInputError: the method has no place for the bonus.
    """
    check_method(params, train)
    relative_to_group = train.method is not Method.PPO or train.advantage is not None

    def make(verified: RewardFunction, verifier: Verifier) -> Rewards:
        reward = ClassmateReward(
            verified=verified,
            peer_query=PeerQuery(
                peers=Peers(peers, params),
                verifier=verifier,
                num_continuations=params.num_return_sequences,
                seed=seed,
                folder=folder,
            ),
            problems={problem.id: problem for problem in problems},
            params=params,
            group_size=train.group_size if relative_to_group else None,
        )
        weight = params.classmate_reward_weight
        if params.fusion == "normalized" and weight > 0:
            return Rewards(functions=[reward.base, reward.bonus], weights=[1.0, weight])
        return Rewards(functions=[reward.fused], weights=[1.0])

    return make


def check_method(params: ClassmateParams, train: TrainParams) -> None:
    """Refuse a method that draws no paths, and ``fusion=normalized`` without GRPO or beside an advantage rule."""
    if train.method not in ONLINE:
        raise BadInputError(
            f"train.method={train.method.value} draws no paths that classmates could continue; "
            f"set one of {', '.join(sorted(ONLINE))}"
        )
    if params.fusion != "normalized":
        return
    if train.method is not Method.GRPO:
        raise BadInputError(
            f"classmate.fusion=normalized needs train.method=grpo, not {train.method.value}; set "
            "fusion=additive or convex"
        )
    if train.advantage not in {None, "gdpo"}:
        raise BadInputError(
            f"train.advantage={train.advantage} beside classmate.fusion=normalized, which is gdpo with "
            "a weight for each part; set train.advantage=null or gdpo, or fusion=additive"
        )


@dataclass(slots=True, kw_only=True)
class ClassmateReward:
    """Reward functions of one training; see the module's docstring.

    ``fused`` is the whole reward. ``base`` and ``bonus`` are its parts, called in this order.
    """

    verified: RewardFunction
    peer_query: PeerQuery
    problems: Mapping[str, Problem]
    params: ClassmateParams
    group_size: int | None
    """Paths of a group; None: the whole draw is one group."""
    _last: Fused | None = field(default=None, init=False)

    def fused(self, **columns: Any) -> list[float | None]:
        """The verified reward with the bonus."""
        return self._draw(**columns).reward

    def base(self, **columns: Any) -> list[float | None]:
        """The verified reward, after the peers have been asked about the draw."""
        self._last = self._draw(**columns)
        return list(self._last.base)

    def bonus(self, **_: Any) -> list[float | None]:
        """The bonus of the draw that `base` was called for."""
        assert self._last is not None
        return list(self._last.bonus)

    def _draw(
        self,
        *,
        completions: Sequence[str],
        problem_id: Sequence[str],
        trainer_state: Any,
        log_metric: Callable[[str, float], None],
        failed: Sequence[bool] | None = None,
        **_: Any,
    ) -> Fused:
        step = int(trainer_state.global_step)
        problems = [self.problems[name] for name in problem_id]
        prefixes = self._cut(problems, completions, failed or [False] * len(problems), step)
        finish = self.peer_query.start(problems, prefixes, step=step)
        base = self.verified(completions=completions, problem_id=problem_id, failed=failed)
        answered = finish()
        fused = fuse(
            base,
            answered.scores,
            answered.empty,
            params=self.params,
            group_size=self.group_size or len(base),
            crowded=answered.crowded,
        )
        if self.params.bonus == "blind":
            paths = self._blind_paths(problem_id, prefixes, answered, base)
            dealt = hash_bonus(fused.bonus, paths, seed=self.peer_query.seed)
            fused = add_bonus(base, dealt, self.params)
        figures = draw_figures(prefixes, answered, fused)
        for name, value in figures.items():
            log_metric(name, value)
        write_draw(
            self.peer_query.folder,
            DrawRecord(
                step=step,
                figures=figures,
                failures=answered.failures,
                empty=answered.added,
                paths=[
                    RewardedPath(
                        problem_id=problem_id[place],
                        completion=completions[place],
                        prefix=prefix.text if prefix is not None else None,
                        scores={name: found[place] for name, found in answered.scores.items()},
                        base=fused.base[place],
                        bonus=fused.bonus[place],
                        reward=fused.reward[place],
                    )
                    for place, prefix in enumerate(prefixes)
                ],
                prefixes=answered.prefixes,
            ),
        )
        return fused

    def _blind_paths(
        self,
        problem_ids: Sequence[str],
        prefixes: Sequence[Prefix | None],
        answered: Answered,
        base: Sequence[float | None],
    ) -> list[BlindPath | None]:
        """None for a path without any score, which has the mean of its group."""
        has_score = [
            any(score is not None for score in scores)
            for scores in zip(*answered.scores.values(), strict=True)
        ]
        size = self.group_size
        return [
            BlindPath(
                group=name if size is None else str(place // size),
                right=bool(verified),
                first_step="".join(split_steps(prefix.text, self.params.step)[:1]),
                prefix=prefix.text,
            )
            if prefix is not None and known
            else None
            for place, (name, prefix, known, verified) in enumerate(
                zip(problem_ids, prefixes, has_score, base, strict=True)
            )
        ]

    def _cut(
        self,
        problems: Sequence[Problem],
        completions: Sequence[str],
        lost: Sequence[bool],
        step: int,
    ) -> list[Prefix | None]:
        """The prefix of each path; None for a path that could not be drawn."""
        chains = [
            Chain(problem=problem, steps=split_steps(text, self.params.step))
            for problem, text in zip(problems, completions, strict=True)
        ]
        leaks = first_leaks(chains, self.peer_query.verifier)
        return [
            None
            if gone
            else cut_chain(
                chain.steps,
                share=draw_share(
                    self.params.keep, self.peer_query.seed, step=step, problem_id=chain.problem.id
                ),
                first_leak=leak,
            )
            for chain, leak, gone in zip(chains, leaks, lost, strict=True)
        ]


def draw_figures(
    prefixes: Sequence[Prefix | None], answered: Answered, fused: Fused
) -> dict[str, float]:
    """Means over the paths of a draw that have the number.

    ``lift`` is the score less the success from the empty prefix, over paths and peers; ``unique_share``
    the number of prefixes asked per path that was drawn; ``failure_rate`` is over all continuations of
    the draw.
    """
    cut = [prefix for prefix in prefixes if prefix is not None]
    by_path = [
        [score for score in scores if score is not None]
        for scores in zip(*answered.scores.values(), strict=True)
    ]
    lifts = [
        score - without
        for name, scores in answered.scores.items()
        for score, without in zip(scores, answered.empty[name], strict=True)
        if score is not None and without is not None
    ]
    means = {
        "base_reward": _mean(fused.base),
        **{f"classmate_scores/{name}": _mean(found) for name, found in answered.scores.items()},
        "best_classmate_score": _mean(max(scores) for scores in by_path if scores),
        "avg_classmate_score": _mean(fmean(scores) for scores in by_path if scores),
        "final_reward": _mean(fused.reward),
        "lift": _mean(lifts),
        **{f"failure_rate/{name}": rate for name, rate in answered.failure_rates.items()},
        "leak_rate": _mean(float(prefix.leaked) for prefix in cut),
        "empty_prefix_rate": _mean(float(not prefix.kept) for prefix in cut),
        "kept_steps": _mean(float(prefix.kept) for prefix in cut),
        "unique_share": len(answered.prefixes) / len(cut) if cut else None,
    }
    return {name: value for name, value in means.items() if value is not None}


def _mean(numbers: Iterable[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return fmean(known) if known else None
