"""The reward of a training with peers, as trainers call it: cut, ask, judge, fuse, log.

The peers answer while the actor's paths are judged. A resumed training asks what an unbroken one asks, and
gets the same answers from a peer that repeats itself for the same call; an engine that batches by arrival
does not, nor does a peer after a missed deadline, which ``failure_rate`` shows.
"""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

from pipeline_lib.engines.tokens import count_within
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.params.train import ONLINE, Method, TrainParams, Variant
from pipeline_lib.records import Problem
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.classmate.cut import (
    Chain,
    Prefix,
    cut_chain,
    draw_shares,
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
from pipeline_lib.systems.classmate.fusion import (
    Deal,
    DealtPath,
    Fused,
    add_bonus,
    deal_bonus,
    deal_by_hash,
    fuse,
)
from pipeline_lib.systems.classmate.peer import Peer, Peers
from pipeline_lib.train.online.rewards import MakeRewards, RewardFunction, Rewards
from pipeline_lib.train.token_budget import PEER_TOKENS
from pipeline_lib.verify.dispatch import Verifier


def make_classmate_rewards(  # noqa: PLR0913 - what a reward depends on
    peers: Sequence[Peer],
    problems: Sequence[Problem],
    *,
    tokenizer: Any,
    params: ClassmateParams,
    train: TrainParams,
    seed: int,
    folder: pathlib.Path,
) -> MakeRewards:
    """The rewards of a training with ``peers``, for `TrainingRequest.make_rewards`.

    With weight 0 the peers are asked and logged, and the reward is the verified one. ``problems`` are of the rows;
    ``folder``, of this training's key alone, is for the draws; ``tokenizer`` is the actor's. BadInputError: the method
    has no place for the bonus.
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
            tokenizer=tokenizer,
            group_size=train.group_size if relative_to_group else None,
        )
        weight = params.classmate_reward_weight
        if params.fusion == "normalized" and weight > 0:
            return Rewards(functions=[reward.base, reward.bonus], weights=[1.0, weight])
        if params.credit == "prefix" and weight > 0:
            paid = [reward.paid_at(cut) for cut in range(params.cuts)]
            # The reward in the log is then the verified one.
            weights = [1.0, *(0.0 for _ in paid)]
            return Rewards(functions=[reward.base, *paid], weights=weights, held=reward.held)
        return Rewards(functions=[reward.fused], weights=[1.0])

    return make


def check_method(params: ClassmateParams, train: TrainParams) -> None:
    """Refuse a method that draws no paths or has no place for the bonus.

    ``fusion=normalized`` is for GRPO without an advantage rule and with credit to the chain, ``credit=prefix`` for GRPO
    with ratios of tokens.
    """
    if train.method not in ONLINE:
        raise BadInputError(
            f"train.method={train.method.value} draws no paths that classmates could continue; "
            f"set one of {', '.join(sorted(ONLINE))}"
        )
    if params.credit == "prefix":
        if train.method is not Method.GRPO or train.variant is Variant.GSPO:
            raise BadInputError(
                f"classmate.credit=prefix pays tokens, and train.method={train.method.value}, "
                f"variant={train.variant.value} whole paths; set method=grpo with a variant other than gspo, or credit=chain"
            )
        if params.fusion == "normalized":
            raise BadInputError(
                "classmate.fusion=normalized beside credit=prefix; set fusion=additive or convex, or credit=chain"
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

    ``fused`` is the whole reward. ``base`` and ``bonus``, or ``base`` and each of ``paid_at``, are its parts, called in
    this order.
    """

    verified: RewardFunction
    peer_query: PeerQuery
    problems: Mapping[str, Problem]
    params: ClassmateParams
    tokenizer: Any
    group_size: int | None
    """Paths of a group; None: the whole draw is one group."""
    _last: Fused | None = field(default=None, init=False)
    _paid: Sequence[list[float | None]] = field(default=(), init=False)
    """By cut: rewards of the last draw, each with the bonus of this cut alone."""
    _held: Sequence[Sequence[int]] = field(default=(), init=False)

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

    def paid_at(self, cut: int) -> RewardFunction:
        """The verified reward with the bonus of one cut of each path, of the draw that `base` was called for."""

        def paid(**_: Any) -> list[float | None]:
            return list(self._paid[cut])

        return paid

    def held(self) -> Sequence[Sequence[int]]:
        """By path: the tokens of its prefixes."""
        return self._held

    def _draw(
        self,
        *,
        completions: Sequence[str],
        problem_id: Sequence[str],
        trainer_state: Any,
        log_metric: Callable[[str, float], None],
        completion_ids: Sequence[Sequence[int]] = (),
        failed: Sequence[bool] | None = None,
        **_: Any,
    ) -> Fused:
        step, cuts, count = int(trainer_state.global_step), self.params.cuts, len(completions)
        problems = [self.problems[name] for name in problem_id]
        # Every path at its first share, then every path at its next one.
        prefixes = self._cut(problems, completions, failed or [False] * count, step)
        finish = self.peer_query.start(problems * cuts, prefixes, step=step)
        base = self.verified(completions=completions, problem_id=problem_id, failed=failed)
        answered = finish()
        bonus = fuse(
            base * cuts,
            answered.scores,
            answered.empty,
            params=self.params,
            group_size=self.group_size or count,
            crowded=answered.crowded,
        ).bonus
        if (deal := self._deal(step)) is not None:
            bonus = deal_bonus(bonus, self._dealt_paths(problem_id, prefixes, answered, base), deal)
        by_cut = [bonus[start : start + count] for start in range(0, len(bonus), count)]
        fused = add_bonus(base, [*map(_mean, zip(*by_cut, strict=True))], self.params)
        self._paid = [add_bonus(base, own, self.params).reward for own in by_cut]
        if self.params.credit == "prefix":
            kept = [prefix.text if prefix else "" for prefix in prefixes]
            self._held = [
                [count_within(self.tokenizer, ids, text) for text in kept[place::count]]
                for place, ids in enumerate(completion_ids)
            ]
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
                        problem_id=problem_id[place % count],
                        completion=completions[place % count],
                        cut=place // count,
                        prefix=prefix.text if prefix is not None else None,
                        scores={name: found[place] for name, found in answered.scores.items()},
                        base=fused.base[place % count],
                        bonus=bonus[place],
                        reward=fused.reward[place % count],
                    )
                    for place, prefix in enumerate(prefixes)
                ],
                prefixes=answered.prefixes,
            ),
        )
        return fused

    def _deal(self, step: int) -> Deal | None:
        """The function by which a control reassigns the peers' bonuses among paths; None for no control."""
        seed = self.peer_query.seed
        if self.params.bonus == "hashed":
            return partial(deal_by_hash, seed=seed)
        random = child_random(seed, "classmate", "shuffled", step)
        if self.params.bonus == "shuffled":
            return lambda _, bonuses: random.sample(bonuses, len(bonuses))
        return None

    def _dealt_paths(
        self,
        problem_ids: Sequence[str],
        prefixes: Sequence[Prefix | None],
        answered: Answered,
        base: Sequence[float | None],
    ) -> list[DealtPath | None]:
        """None for a path without any score, which has the mean of its group."""
        has_score = [
            any(score is not None for score in scores)
            for scores in zip(*answered.scores.values(), strict=True)
        ]
        size, count = self.group_size, len(base)
        return [
            DealtPath(
                group=(place // count, problem_ids[place % count])
                if size is None
                else place // size,
                right=bool(base[place % count]),
                first_step="".join(split_steps(prefix.text, self.params.step)[:1]),
                prefix=prefix.text,
            )
            if prefix is not None and known
            else None
            for place, (prefix, known) in enumerate(zip(prefixes, has_score, strict=True))
        ]

    def _cut(
        self,
        problems: Sequence[Problem],
        completions: Sequence[str],
        lost: Sequence[bool],
        step: int,
    ) -> list[Prefix | None]:
        """The prefix of each path by cut; None for a path that could not be drawn."""
        chains = [
            Chain(problem=problem, steps=split_steps(text, self.params.step))
            for problem, text in zip(problems, completions, strict=True)
        ]
        leaks = first_leaks(chains, self.peer_query.verifier)
        keep, seed, cuts = self.params.keep, self.peer_query.seed, self.params.cuts
        shares = {
            one.id: draw_shares(keep, seed, count=cuts, step=step, problem_id=one.id)
            for one in problems
        }
        return [
            None
            if gone
            else cut_chain(chain.steps, share=shares[chain.problem.id][cut], first_leak=leak)
            for cut in range(cuts)
            for chain, leak, gone in zip(chains, leaks, lost, strict=True)
        ]


def draw_figures(
    prefixes: Sequence[Prefix | None], answered: Answered, fused: Fused
) -> dict[str, float]:
    """Means over the paths of a draw that have the number, or over all of their prefixes.

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
        **{f"{PEER_TOKENS}{name}": tokens for name, tokens in answered.tokens.items()},
        "leak_rate": _mean(float(prefix.leaked) for prefix in cut),
        "empty_prefix_rate": _mean(float(not prefix.kept) for prefix in cut),
        "kept_steps": _mean(float(prefix.kept) for prefix in cut),
        "unique_share": len(answered.prefixes) / len(cut) if cut else None,
    }
    return {name: value for name, value in means.items() if value is not None}


def _mean(numbers: Iterable[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return fmean(known) if known else None
