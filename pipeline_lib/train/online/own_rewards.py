"""Rewards by functions of the user, in TRL's form, beside the verified reward or in its place.

    def reward(completions, *, problems, verdicts, **columns): ...

A group is a call of its own, in a process with a deadline. A reward is a finite number, or None for "not scored".
Whatever else happens is None too, with its cause in the log: a path without a reward has no advantage.
"""

import itertools
import logging
import math
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
from pipeline_lib.verdicts import Verdict
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
    functions: list[RewardFunction] = []
    for one in listed:
        if one.function is None:
            functions.append(verified)
            continue
        found = find_function(one.function, key="train.rewards.function", group=REWARDS)
        code = stack.enter_context(OwnCode(found.source, limits))
        functions.append(
            OwnReward(
                name=one.name,
                function=found.name,
                call=code.call,
                problems=problems,
                verifier=verifier,
            )
        )
    return Rewards(functions=functions, weights=[one.weight for one in listed])


@dataclass(frozen=True, kw_only=True)
class OwnReward:
    """Implements `RewardFunction`."""

    name: str
    function: str
    call: Callable[[Sequence[Call]], list[Result]]
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
        lost = failed or [False] * len(completions)
        items = [
            Item(gold=self.problems[name].gold, text=text)
            for name, text in zip(problem_id, completions, strict=True)
        ]
        verdicts = self.verifier.judge(items)
        drawn = [place for place in range(len(items)) if not lost[place]]
        groups = [[*group] for _, group in itertools.groupby(drawn, key=problem_id.__getitem__)]
        calls = [self._call_of(group, completions, problem_id, verdicts) for group in groups]
        rewards: list[float | None] = [None] * len(items)
        for group, result in zip(groups, self.call(calls), strict=True):
            for place, reward in zip(group, self._read(result, len(group)), strict=True):
                rewards[place] = reward
        nulls = [rewards[place] is None for place in drawn]
        log_metric(f"rewards/{self.name}/not_scored", sum(nulls) / max(len(nulls), 1))
        return rewards

    def _call_of(
        self,
        group: Sequence[int],
        completions: Sequence[str],
        problem_id: Sequence[str],
        verdicts: Sequence[Verdict],
    ) -> Call:
        problems = [self.problems[problem_id[place]] for place in group]
        names = dict.fromkeys(name for problem in problems for name in problem.columns)
        return Call(
            function=self.function,
            args=[[completions[place] for place in group]],
            options={
                **{name: [one.columns.get(name) for one in problems] for name in names},
                "problems": problems,
                "verdicts": [verdicts[place] for place in group],
            },
            shares=len(group),
        )

    def _read(self, result: Result, count: int) -> list[float | None]:
        if result.failure is not None:
            self._tell(result.failure)
            return [None] * count
        if not isinstance(result.value, list) or len(result.value) != count:
            self._tell(f"it returned no list of {count} rewards for {count} completions")
            return [None] * count
        return [self._reward(value) for value in result.value]

    def _reward(self, value: Any) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool | int | float) and math.isfinite(value):
            return float(value)
        self._tell(f"it returned {value!r}, which is no finite number and not None")
        return None

    def _tell(self, cause: str) -> None:
        if cause not in self._told:
            self._told.add(cause)
            _log.warning("train.rewards: %s: not scored: %s", self.name, cause)
