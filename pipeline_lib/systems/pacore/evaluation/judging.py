"""From trials to judged problems: verdicts of all texts, answers numbered without the gold."""

from collections.abc import Mapping, Sequence

from pipeline_lib.records import Problem
from pipeline_lib.study.selection.selectors import CandidatePath
from pipeline_lib.systems.pacore.evaluation.outcomes import JudgedProblem, SynthesisOutcome
from pipeline_lib.systems.pacore.evaluation.trials import PLAIN, Trial
from pipeline_lib.verify.answer_groups import AnswerBook
from pipeline_lib.verify.dispatch import Item, Verifier

Scores = Mapping[tuple[str, str], bool | None]
"""Strict score by problem id and text; None: the verifier failed."""


def judge_texts(
    problems: Sequence[Problem], trials: Mapping[str, Mapping[str, Trial]], verifier: Verifier
) -> Scores:
    """The score of every distinct text of every problem; ``trials`` by problem and strategy."""
    keys = [
        (problem, text)
        for problem in problems
        for text in dict.fromkeys(
            path.text
            for trial in trials[problem.id].values()
            for paths in trial.rounds
            for path in paths
            if path.text is not None
        )
    ]
    verdicts = verifier.judge([Item(gold=problem.gold, text=text) for problem, text in keys])
    return {
        (problem.id, text): verdict.strict
        for (problem, text), verdict in zip(keys, verdicts, strict=True)
    }


def judged_problem(
    problem: Problem, trials: Mapping[str, Trial], scores: Scores, verifier: Verifier
) -> JudgedProblem | None:
    """The judged problem; None if a call that counts or its verifier failed."""
    [plain] = trials[PLAIN].rounds
    right = [_score(problem.id, path.text, scores) for path in plain]
    outcomes = {
        name: _outcome(problem.id, trial, scores) for name, trial in trials.items() if name != PLAIN
    }
    if None in right or None in outcomes.values():
        return None
    book = AnswerBook(kind=problem.kind, verifier=verifier)
    return JudgedProblem(
        id=problem.id,
        candidates=tuple(
            CandidatePath(
                answer=book.number(path.text or ""),
                tokens=path.tokens,
                logprob=path.logprob,
                self_certainty=None,
            )
            for path in plain
        ),
        right=tuple(bool(one) for one in right),
        prompt_tokens=trials[PLAIN].cost.prompt_tokens,
        num_requests=1 + sum(path.opens_request for path in plain[1:]),
        outcomes={name: outcome for name, outcome in outcomes.items() if outcome is not None},
    )


def _outcome(problem_id: str, trial: Trial, scores: Scores) -> SynthesisOutcome | None:
    before, [answer] = trial.rounds[-2], trial.rounds[-1]
    later = [path for paths in trial.rounds[1:] for path in paths]
    right = _score(problem_id, answer.text, scores)
    seen = [_score(problem_id, before[path].text, scores) for path in answer.references]
    if right is None or None in seen:
        return None
    return SynthesisOutcome(
        right=right,
        references_right=tuple(bool(one) for one in seen),
        references_shown=sum(len(path.references) for path in later),
        references_dropped=trial.dropped,
        later_calls=len(later),
        cost=trial.cost,
    )


def _score(problem_id: str, text: str | None, scores: Scores) -> bool | None:
    return None if text is None else scores[problem_id, text]
