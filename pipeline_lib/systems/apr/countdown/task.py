"""Countdown as a task of threads: prompts, claims, votes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.records import Problem
from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.grammar import (
    CountdownGrammar,
    answer_of,
    is_child_right,
    is_right,
    read_claim,
)
from pipeline_lib.systems.apr.task import Judged
from pipeline_lib.systems.apr.threads import DEFAULT_LIMITS, End, Limits, Role, Rollout, TextTokens

CHILD_RIGHT = "spawned"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountdownTask:
    """Implements ThreadTask."""

    grammar: CountdownGrammar
    tokens: TextTokens
    limits: Limits = DEFAULT_LIMITS
    is_bare: bool = False
    """Parents begin with the state alone, as the published serial ones do."""

    def wire(self, text: str) -> str:
        """The text itself."""
        return text

    def prompt(self, problem: Problem, condition: str) -> str:
        """The prompt of a root thread, with ``condition`` before it."""
        state = root_state(problem.gold)
        return condition + (state if self.is_bare else "\n".join([lines.move("0"), state]))

    def judge(
        self, rollouts: Sequence[Rollout], problems: Mapping[str, Problem]
    ) -> list[Judged | str]:
        """The claims of the parents, replayed."""
        golds = [problems[one.root.problem_id].gold for one in rollouts]
        return [judge_rollout(one, gold) for one, gold in zip(rollouts, golds, strict=True)]


def root_state(gold: object) -> str:
    """The line of a problem's state."""
    assert isinstance(gold, CountdownGold)
    return lines.state(gold.target, gold.numbers, [])


def judge_rollout(rollout: Rollout, gold: object) -> Judged | str:
    """The verdict on a rollout of the problem of ``gold``; the reason if its parent failed."""
    assert isinstance(gold, CountdownGold)
    if rollout.error is not None:
        return rollout.error
    claim = claim_of(rollout)
    children = [one for one in rollout.sequences if one.role is Role.CHILD]
    return Judged(
        claim=claim,
        answer=answer_of(claim),
        is_right=is_right(gold, claim),
        measures={
            CHILD_RIGHT: float(
                any(is_child_right(gold, one.prefix, one.output) for one in children)
            )
        },
    )


def claim_of(rollout: Rollout) -> str | None:
    """The path that a parent claims; None without one, if it was cut, or if its last join left no room."""
    if rollout.end not in {End.FINISHED, End.CUT}:
        return None
    claim = read_claim(rollout.last.prefix, rollout.last.output)
    # Behind the goal a serial thread writes its path; one that is cut before the end has claimed none.
    return None if rollout.end is End.CUT and not claim else claim
