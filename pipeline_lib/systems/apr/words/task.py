"""Questions in words as a task of threads: prompts, verdicts, and the gates of questions in parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import instruction
from pipeline_lib.systems.apr.task import Judged
from pipeline_lib.systems.apr.threads import (
    End,
    Event,
    Limits,
    Role,
    Rollout,
    TextTokens,
    ThreadGrammar,
)
from pipeline_lib.systems.apr.words.grammars import told
from pipeline_lib.systems.apr.words.parts import combined
from pipeline_lib.systems.apr.words.texts import ANSWER, TURN, answer_text
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import Item, pooled_verifier

WELL_FORMED, RIGHT_PARTS = "well formed", "right parts"
PART_RIGHT, RESULTS_USED = "part right", "results used"
GATES = {WELL_FORMED: 0.95, RIGHT_PARTS: 0.95, PART_RIGHT: 0.8, RESULTS_USED: 0.95}
"""Shares that a model of questions in parts reaches before its accuracy says something about threads."""
_LIMITS = Limits(children=8, draws=4)
"""As of `reasonloop apr solve`: a model that was not trained may spawn the same parts again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WordsTask:
    """Implements ThreadTask for a language model."""

    grammar: ThreadGrammar
    tokens: TextTokens
    wire: Callable[[str], str]
    """The turns of a text by the model's chat template."""
    verify: VerifyParams
    limits: Limits = _LIMITS
    examples: str = ""
    """Turns before the question."""
    is_trained: bool = True
    """Otherwise a message says what the tags are for, and how the answer is written."""

    def prompt(self, problem: Problem, condition: str) -> str:
        """The question, or the whole prompt of a task of one's own; there are no conditions."""
        is_bare = self.is_trained and not problem.is_whole_prompt
        return condition + self.question_prompt(
            problem.question if is_bare else instruction(problem)
        )

    def question_prompt(self, question: str) -> str:
        """The text of a parent before its first draw, without the separators of texts in ``question``."""
        return (
            self.examples + _message(question) + ANSWER
            if self.is_trained
            else told_prompt(question)
        )

    def judge(
        self, rollouts: Sequence[Rollout], problems: Mapping[str, Problem]
    ) -> list[Judged | str]:
        """The verifier's verdicts on the parents' last texts; a parent that was cut has no answer."""
        asked = [problems[one.root.problem_id] for one in rollouts]
        claims = [
            answer_text(one.last.prefix + one.last.output) if one.end is End.FINISHED else None
            for one in rollouts
        ]
        items = [
            Item(gold=problem.gold, text=claim, failure=one.error)
            for one, problem, claim in zip(rollouts, asked, claims, strict=True)
        ]
        with pooled_verifier(self.verify) as verifier:
            verdicts = verifier.judge(items)
            votes = [
                form(claim) if claim and (form := verifier.answer_form(one.kind)) else None
                for one, claim in zip(asked, claims, strict=True)
            ]
        judged = zip(rollouts, asked, claims, votes, verdicts, strict=True)
        return [self._judged(*one) for one in judged]

    def _judged(
        self,
        rollout: Rollout,
        problem: Problem,
        claim: str | None,
        answer: str | None,
        verdict: Verdict,
    ) -> Judged | str:
        if verdict.strict is None:
            return rollout.error or f"no verdict: {verdict.reason}"
        return Judged(
            claim=claim,
            answer=answer,
            is_right=verdict.strict,
            measures=self._gates(rollout, problem, answer),
        )

    def _gates(self, rollout: Rollout, problem: Problem, answer: str | None) -> Mapping[str, float]:
        """Of a question in parts: what the first spawn named, what its children found, and what became of it."""
        facts = problem.columns
        parents = [one for one in rollout.sequences if one.role is Role.PARENT]
        spawn = self.grammar.find_spawn(parents[0].prefix + parents[0].output)
        if "values" not in facts:
            return {}
        if spawn is None:
            return dict.fromkeys((WELL_FORMED, RIGHT_PARTS), 0.0)
        names = [child.name.partition(":")[0] for child in spawn.children]
        values = dict(
            zip(map(str, range(1, len(facts["values"]) + 1)), facts["values"], strict=True)
        )
        found = {
            names[one.child]: self.grammar.read_result(one.output)
            for one in rollout.sequences
            if one.role is Role.CHILD and one.child is not None and not one.round
        }
        gates: dict[str, float] = {
            WELL_FORMED: float(not rollout.events[Event.UNKNOWN_CHILDREN]),
            RIGHT_PARTS: float(names == [*values]),
        }
        if found:
            right = [found.get(name) == str(value) for name, value in values.items()]
            gates[PART_RIGHT] = sum(right) / len(right)
        if answer is not None and found.keys() == values.keys():
            gates |= _used(answer, [*found.values()], facts)
        return gates


def told_prompt(question: str) -> str:
    """The text of a parent that is told of tags, before its first draw."""
    return told(_message(question)) + ANSWER


def _message(text: str) -> str:
    return text.replace(ANSWER, " ").replace(TURN, " ")


def _used(answer: str, results: Sequence[str | None], facts: Mapping[str, Any]) -> dict[str, float]:
    """1 if the answer follows from the joined results, right or wrong; empty if a result is missing."""
    if not all(one is not None and one.isdigit() for one in results):
        return {}
    follows = combined(facts["asked"], [int(one or 0) for one in results])
    return {RESULTS_USED: float(answer == str(follows))}
