"""From trials to judged attempts and problems: verdicts of all texts, answers numbered without the gold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.records import Problem
from pipeline_lib.study.attempts import Attempt, Cost
from pipeline_lib.study.selection import CandidatePath
from pipeline_lib.systems.pacore.evaluation.trials import PLAIN, Trial, TrialPath
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.answer_groups import AnswerBook
from pipeline_lib.verify.dispatch import Item, Verifier

Verdicts = Mapping[tuple[str, str], Verdict]
"""By problem id and text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedProblem:
    """The plain paths of a problem, and its attempt by strategy; all have a verdict."""

    id: str
    candidates: tuple[CandidatePath, ...]
    """The plain paths without their verdicts."""
    plain: tuple[Attempt, ...]
    prompt_tokens: int
    """Of all requests for the plain paths."""
    num_requests: int
    """For the plain paths: one if the engine draws them together, one per path if it takes no consecutive seeds."""
    outcomes: Mapping[str, Attempt]


def judge_texts(
    problems: Sequence[Problem], trials: Mapping[str, Mapping[str, Trial]], verifier: Verifier
) -> Verdicts:
    """The verdict on every distinct text of every problem; ``trials`` by problem and strategy."""
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
        (problem.id, text): verdict for (problem, text), verdict in zip(keys, verdicts, strict=True)
    }


def is_right(problem_id: str, path: TrialPath, verdicts: Verdicts) -> bool | None:
    """The strict verdict; None if the call or the verifier failed."""
    return None if path.text is None else verdicts[problem_id, path.text].strict


def attempts_of(trial: Trial, verdicts: Verdicts) -> list[Attempt]:
    """Each plain path, or the last call of a strategy.

    Of a strategy ``extra`` has the numbers of calls, of calls after the first round, and of the references that
    these saw (``shown``) or that did not fit; and of the last call the references, and the right ones if all were
    judged.
    """
    if trial.strategy != PLAIN:
        return [_outcome(trial, verdicts)]
    [plain] = trial.rounds
    prompt = trial.cost.prompt_tokens / _num_requests(plain)
    return [
        _attempt(
            trial,
            path,
            verdicts,
            sample=sample,
            cost=Cost(drawn=path.tokens, prompt=prompt, critical=path.tokens, longest=path.tokens),
        )
        for sample, path in enumerate(plain)
    ]


def judged_problem(
    problem: Problem, trials: Mapping[str, Trial], verdicts: Verdicts, verifier: Verifier
) -> JudgedProblem | None:
    """The judged problem; None if a call that counts or its verifier failed."""
    attempts = {name: attempts_of(trial, verdicts) for name, trial in trials.items()}
    plain = attempts.pop(PLAIN)
    outcomes = {name: one for name, [one] in attempts.items()}
    judged = all(one.right is not None for one in (*plain, *outcomes.values()))
    if not judged or any("right_references" not in one.extra for one in outcomes.values()):
        return None
    book = AnswerBook(kind=problem.kind, verifier=verifier)
    [paths] = trials[PLAIN].rounds
    return JudgedProblem(
        id=problem.id,
        candidates=tuple(
            CandidatePath(
                answer=book.number(path.text or ""),
                tokens=path.tokens,
                logprob=path.logprob,
                self_certainty=None,
            )
            for path in paths
        ),
        plain=tuple(plain),
        prompt_tokens=trials[PLAIN].cost.prompt_tokens,
        num_requests=_num_requests(paths),
        outcomes=outcomes,
    )


def _num_requests(plain: Sequence[TrialPath]) -> int:
    return 1 + sum(path.opens_request for path in plain[1:])


def _outcome(trial: Trial, verdicts: Verdicts) -> Attempt:
    before, [answer] = trial.rounds[-2], trial.rounds[-1]
    later = [path for paths in trial.rounds[1:] for path in paths]
    seen = [is_right(trial.problem_id, before[path], verdicts) for path in answer.references]
    cost = trial.cost
    return _attempt(
        trial,
        answer,
        verdicts,
        cost=Cost(
            drawn=cost.completion_tokens,
            prompt=cost.prompt_tokens,
            critical=cost.critical_tokens,
            longest=cost.longest_tokens,
        ),
        extra={
            "calls": cost.calls,
            "later_calls": len(later),
            "shown": sum(len(path.references) for path in later),
            "dropped": trial.dropped,
            "references": len(seen),
            **({} if None in seen else {"right_references": seen.count(True)}),
        },
    )


def _attempt(
    trial: Trial,
    path: TrialPath,
    verdicts: Verdicts,
    *,
    cost: Cost,
    sample: int = 0,
    extra: Mapping[str, float] | None = None,
) -> Attempt:
    verdict = None if path.text is None else verdicts[trial.problem_id, path.text]
    return Attempt(
        problem_id=trial.problem_id,
        arm=trial.strategy,
        sample=sample,
        right=verdict.strict if verdict else None,
        lenient=verdict.lenient if verdict else None,
        answer=verdict.extracted if verdict else None,
        cost=cost,
        extra=extra or {},
    )
