"""Strategies of an evaluation, what each drew for a problem, and its verdicts.

Trials are rows of a resumable file. They become judged attempts and problems, whose answers are numbered without
the gold.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from pipeline_lib.params.pacore import EarlyStop, PacoreParams
from pipeline_lib.records import Problem
from pipeline_lib.sampling.compute_cost import Cost as DrawnCost
from pipeline_lib.study.attempts import Attempt, Cost
from pipeline_lib.study.selection import CandidatePath
from pipeline_lib.systems.pacore.parts import Parts, PartsOf
from pipeline_lib.systems.pacore.rounds import RoundPlan, make_plan
from pipeline_lib.systems.pacore.solution import Solution
from pipeline_lib.verify.dispatch import AnswerBook, TextVerdicts, Verifier

PLAIN = "plain"
"""Independent paths in one round, for the votes."""
GREEDY = "greedy"
"""One path at temperature 0."""
GREEDY_LAST = ", greedy last call"
OTHER = "other references"
"""Rounds whose first round answers another question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A way to answer a question in rounds."""

    name: str
    plan: Sequence[RoundPlan]
    early_stop: EarlyStop | None = None
    is_greedy: bool = False
    """The last call is at temperature 0."""

    @property
    def reads_others(self) -> bool:
        """The first round are paths of another question, which are not drawn."""
        return self.name.startswith(OTHER)

    def trial_name(self, problem_id: str) -> str:
        """Name of its trial on a problem."""
        return f"{self.name}: {problem_id}"


def make_strategies(
    params: PacoreParams, *, problems: int, synthesizes: bool = True
) -> list[Strategy]:
    """The plain paths, then the strategies of ``params.evaluate``, which draw some of the same paths.

    A single one of ``problems`` has no other; a model that does not synthesize has plain paths alone.
    """
    compared = params.evaluate
    found = [Strategy(name=PLAIN, plan=[RoundPlan(width=compared.plain_paths)])]
    if compared.greedy:
        found.append(Strategy(name=GREEDY, plan=[RoundPlan(width=1)], is_greedy=True))
    if not synthesizes:
        return found
    rounds = [
        Strategy(
            name=_name(widths),
            plan=make_plan(params.model_copy(update={"widths": widths, "rsa": None})),
        )
        for widths in compared.widths
    ]
    cold = [replace(one, name=f"{one.name}{GREEDY_LAST}", is_greedy=True) for one in rounds]
    found += [*(cold if compared.greedy else ()), *rounds]
    if compared.other_references and problems > 1:
        name = rounds[0].name.replace("rounds", OTHER)
        found.append(replace(rounds[0], name=name, is_greedy=compared.greedy))
    stop = compared.early_stop
    wide = [w for w in compared.widths if stop is not None and w[0] > stop.minimum]
    if stop is not None and wide:
        plan = make_plan(params.model_copy(update={"widths": wide[0], "rsa": None}))
        found.append(Strategy(name=f"{_name(wide[0])}, early stop", plan=plan, early_stop=stop))
    if compared.rsa is not None:
        rsa = compared.rsa
        plan = make_plan(params.model_copy(update={"rsa": rsa}))
        name = f"RSA {rsa.population}, subsets of {rsa.subset}, {rsa.steps} steps"
        found.append(Strategy(name=name, plan=plan))
    return found


def _name(widths: Sequence[int]) -> str:
    return f"rounds {','.join(map(str, widths))},1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPath:
    """One path of a trial."""

    text: str | None
    """None: the call failed."""
    tokens: int
    logprob: float | None
    message: str | None
    references: tuple[int, ...]
    opens_request: bool = False
    """As `Completion.opens_request`; False in trials of before 2026-11-24, which count as one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One strategy on one problem."""

    name: str
    """Unique within an evaluation."""
    strategy: str
    problem_id: str
    rounds: tuple[tuple[TrialPath, ...], ...]
    dropped: int
    """References that did not fit."""
    cost: DrawnCost

    @property
    def is_complete(self) -> bool:
        """False if a call of the last round failed."""
        return all(path.text is not None for path in self.rounds[-1])

    def row(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


_TRIAL = TypeAdapter(Trial)


def read_trial(row: Mapping[str, Any]) -> Trial:
    """Inverse of `Trial.row`, from JSON."""
    return _TRIAL.validate_python(row)


def make_trial(strategy: Strategy, solution: Solution) -> Trial:
    """The trial of a solution."""
    return Trial(
        name=strategy.trial_name(solution.question.id),
        strategy=strategy.name,
        problem_id=solution.question.id,
        rounds=tuple(
            tuple(
                TrialPath(
                    text=None if one.error else one.text,
                    tokens=one.completion_tokens,
                    logprob=one.logprob,
                    message=message,
                    references=tuple(shown),
                    opens_request=one.opens_request,
                )
                for one, message, shown in zip(
                    drawn.completions, drawn.messages, drawn.references, strict=True
                )
            )
            for drawn in solution.rounds
        ),
        dropped=sum(drawn.dropped for drawn in solution.rounds),
        cost=solution.cost,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCall:
    """The parts of a last call, and of the references that it saw."""

    answer: Parts
    references: Sequence[Parts]


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
    greedy: Attempt | None = None
    """The greedy path, if there is one."""
    parts: Sequence[Parts] = ()
    """Of each plain path; empty for a task without parts."""
    calls: Mapping[str, CheckedCall] = field(default_factory=dict)
    """Parts of last calls after one round, by strategy."""

    def prompt_of(self, count: int) -> float:
        """Mean prompt tokens of ``count`` plain paths; a prompt is read once per request."""
        num_requests = math.ceil(self.num_requests * count / len(self.plain))
        return self.prompt_tokens * num_requests / self.num_requests


def is_right(problem_id: str, path: TrialPath, verdicts: TextVerdicts) -> bool | None:
    """The strict verdict; None if the call or the verifier failed."""
    return None if path.text is None else verdicts[problem_id, path.text].strict


def attempts_of(trial: Trial, verdicts: TextVerdicts) -> list[Attempt]:
    """Each plain path, or the last call of a strategy.

    Of a strategy ``extra`` has the numbers of calls, of calls after the first round, and of the references that
    these saw (``shown``) or that did not fit; and of the last call the references, and the right ones if all were
    judged.
    """
    extra: dict[str, float] = {}
    paths, total = trial.rounds[-1], trial.cost
    if trial.strategy == PLAIN:
        prompt = total.prompt_tokens / _num_requests(paths)
        costs = [
            Cost(drawn=one.tokens, prompt=prompt, critical=one.tokens, longest=one.tokens)
            for one in paths
        ]
    else:
        extra = _call_counts(trial, verdicts)
        costs = [
            Cost(
                drawn=total.completion_tokens,
                prompt=total.prompt_tokens,
                critical=total.critical_tokens,
                longest=total.longest_tokens,
            )
        ]
    judged = [None if one.text is None else verdicts[trial.problem_id, one.text] for one in paths]
    return [
        Attempt(
            problem_id=trial.problem_id,
            arm=trial.strategy,
            sample=sample,
            right=verdict.strict if verdict else None,
            lenient=verdict.lenient if verdict else None,
            answer=verdict.extracted if verdict else None,
            cost=cost,
            extra=extra,
        )
        for sample, (verdict, cost) in enumerate(zip(judged, costs, strict=True))
    ]


def _call_counts(trial: Trial, verdicts: TextVerdicts) -> dict[str, float]:
    before, [answer] = trial.rounds[-2] if len(trial.rounds) > 1 else (), trial.rounds[-1]
    later = [path for paths in trial.rounds[1:] for path in paths]
    seen = [is_right(trial.problem_id, before[path], verdicts) for path in answer.references]
    return {
        "calls": trial.cost.calls,
        "later_calls": len(later),
        "shown": sum(len(path.references) for path in later),
        "dropped": trial.dropped,
        "references": len(seen),
        **({} if None in seen else {"right_references": seen.count(True)}),
    }


def judged_problem(
    problem: Problem,
    trials: Mapping[str, Trial],
    verdicts: TextVerdicts,
    verifier: Verifier,
    parts: PartsOf = MappingProxyType({}),
) -> JudgedProblem | None:
    """The judged problem; None if a call that counts or its verifier failed.

    ``parts`` are of the texts of `texts_in_parts`, or there are none.
    """
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
        greedy=outcomes.pop(GREEDY, None),
        outcomes=outcomes,
        parts=[parts[problem.id, path.text or ""] for path in paths] if parts else (),
        calls=_checked_calls(trials, parts) if parts else {},
    )


def texts_in_parts(trials: Mapping[str, Trial]) -> list[str]:
    """Texts of a problem whose parts are checked: plain paths, and calls after one round with their references."""
    found = [path.text or "" for path in trials[PLAIN].rounds[0]]
    for trial in _single(trials):
        found += [path.text or "" for paths in trial.rounds for path in paths]
    return found


def _single(trials: Mapping[str, Trial]) -> list[Trial]:
    return [trial for trial in trials.values() if len(trial.rounds) == 2]


def _checked_calls(trials: Mapping[str, Trial], parts: PartsOf) -> dict[str, CheckedCall]:
    found = {}
    for trial in _single(trials):
        seen, [answer] = trial.rounds
        references = [parts[trial.problem_id, seen[one].text or ""] for one in answer.references]
        own = parts[trial.problem_id, answer.text or ""]
        found[trial.strategy] = CheckedCall(answer=own, references=references)
    return found


def _num_requests(plain: Sequence[TrialPath]) -> int:
    return 1 + sum(path.opens_request for path in plain[1:])
