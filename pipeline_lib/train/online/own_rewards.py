"""Rewards by functions of the user, in TRL's form, beside the verified reward or in its place.

    def reward(completions, *, problems, verdicts, **columns): ...

A group is a call of its own, in a process with a deadline. A reward is a finite number, or None for "not scored".
Whatever else happens is None too, with its cause in the log: a path without a reward has no advantage.
"""

import itertools
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from pipeline_lib.own.calls import Call, OwnCode, Result
from pipeline_lib.own.code import REWARDS, find_function
from pipeline_lib.params.paths import OwnLimits
from pipeline_lib.params.train import RewardParams
from pipeline_lib.records import Problem
from pipeline_lib.train.online.rewards import RewardFunction, Rewards
from pipeline_lib.verify.dispatch import Item, Verifier

_log = logging.getLogger(__name__)


def own_rewards(
    listed: Sequence[RewardParams],
    verified: RewardFunction,
    problems: Mapping[str, Problem],
    verifier: Verifier,
    limits: OwnLimits,
    stack: ExitStack,
) -> Rewards:
    """The rewards of ``listed``; one without a function is ``verified``. Processes end with ``stack``.

    Raises:
        BadInputError: a function cannot be found; at its first call, that its file cannot be imported.
    """

    def reward(one: RewardParams) -> RewardFunction:
        if one.function is None:
            return verified
        found = find_function(one.function, key="train.rewards.function", group=REWARDS)
        code = stack.enter_context(OwnCode(found.source, limits))
        return OwnReward(
            name=one.name, function=found.name, code=code, problems=problems, verifier=verifier
        )

    return Rewards(functions=[*map(reward, listed)], weights=[one.weight for one in listed])


@dataclass(frozen=True, kw_only=True)
class OwnReward:
    """Implements `RewardFunction`."""

    name: str
    function: str
    code: OwnCode
    problems: Mapping[str, Problem]
    """By id."""
    verifier: Verifier
    _told: set[str] = field(default_factory=set, init=False)
    """Causes that are in the log."""

    @property
    def __name__(self) -> str:
        """What TRL calls it in its metrics."""
        return self.name

    def __call__(
        self,
        *,
        completions: Sequence[str],
        problem_id: Sequence[str],
        log_metric: Callable[[str, float], None],
        failed: Sequence[bool] | None = None,
        **_: Any,
    ) -> list[float | None]:
        """The rewards of a draw."""
        asked = [self.problems[name] for name in problem_id]
        verdicts = self.verifier.judge(
            [Item(gold=one.gold, text=text) for one, text in zip(asked, completions, strict=True)]
        )
        drawn = [place for place in range(len(asked)) if not (failed and failed[place])]
        groups = [[*group] for _, group in itertools.groupby(drawn, key=problem_id.__getitem__)]
        calls = []
        for group in groups:
            problems = [asked[place] for place in group]
            names = dict.fromkeys(name for one in problems for name in one.columns)
            columns = {name: [one.columns.get(name) for one in problems] for name in names}
            judged = {"problems": problems, "verdicts": [verdicts[place] for place in group]}
            texts = [completions[place] for place in group]
            calls.append(
                Call(
                    function=self.function,
                    args=[texts],
                    options=columns | judged,
                    shares=len(group),
                )
            )
        rewards: list[float | None] = [None] * len(asked)
        for group, result in zip(groups, self.code.call(calls), strict=True):
            for place, reward in zip(group, self._read(result, len(group)), strict=True):
                rewards[place] = reward
        nulls = [rewards[place] is None for place in drawn]
        log_metric(f"rewards/{self.name}/not_scored", sum(nulls) / max(len(nulls), 1))
        return rewards

    def _read(self, result: Result, count: int) -> list[float | None]:
        cause = result.failure
        if cause is None and not (isinstance(result.value, list) and len(result.value) == count):
            cause = f"it returned no list of {count} rewards for {count} completions"
        if cause is not None:
            self._tell(cause)
            return [None] * count
        return [*map(self._reward, result.value)]

    def _reward(self, value: Any) -> float | None:
        if isinstance(value, bool | int | float) and abs(value) <= sys.float_info.max:
            return float(value)
        if value is not None:
            self._tell(f"it returned {value!r}, which is no finite number and not None")
        return None

    def _tell(self, cause: str) -> None:
        if cause not in self._told:
            self._told.add(cause)
            _log.warning("train.rewards: %s: not scored: %s", self.name, cause)
