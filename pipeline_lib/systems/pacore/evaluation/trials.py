"""Strategies of an evaluation, and what each drew for a problem, as rows of a resumable file."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from pipeline_lib.params.pacore import EarlyStop, PacoreParams
from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.systems.pacore.rounds import RoundPlan, make_plan
from pipeline_lib.systems.pacore.solution import Solution

PLAIN = "plain"
"""Independent paths in one round, for the votes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A way to answer a question in rounds."""

    name: str
    plan: Sequence[RoundPlan]
    early_stop: EarlyStop | None = None

    def trial_name(self, problem_id: str) -> str:
        """Name of its trial on a problem."""
        return f"{self.name}: {problem_id}"


def make_strategies(params: PacoreParams) -> list[Strategy]:
    """The plain paths, then the strategies of ``params.evaluate``, which draw some of the same paths."""
    compared = params.evaluate
    found = [Strategy(name=PLAIN, plan=[RoundPlan(width=compared.plain_paths)])]
    for widths in compared.widths:
        plan = make_plan(params.model_copy(update={"widths": widths, "rsa": None}))
        found.append(Strategy(name=_name(widths), plan=plan))
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
    cost: Cost

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
