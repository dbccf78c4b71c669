"""Beam search over steps: sample N continuations, keep the best N / M, continue each M times.

The value of a partial path is the policy's confidence in it. All problems of a call advance
together.

Source: Snell et al. 2024, arXiv:2408.03314, section 5.1, with a label-free value instead of a
verifier.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline_lib.engines.chat_model import Completion, Request
from pipeline_lib.engines.scored_text import ScoredText
from pipeline_lib.errors import BadInputError
from pipeline_lib.records import FinishReason
from pipeline_lib.sampling.compute_cost import NOTHING, Cost, round_cost
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.study.search.problem import FoundPath, SearchProblem, SearchSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamResult:
    """The complete paths of a problem's last beam, best first, and the cost."""

    paths: tuple[FoundPath, ...]
    """Empty if every request failed."""
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    text: str = ""
    tokens: int = 0
    logprob: float | None = 0.0
    num_steps: int = 0
    certainty: float = 0.0
    finished: FinishReason | None = None
    """None while the branch is open."""


@dataclass(slots=True, kw_only=True)
class _Beam:
    """One problem's state."""

    problem: SearchProblem
    branches: list[_Branch] = field(default_factory=lambda: [_Branch()])
    cost: Cost = NOTHING

    @property
    def open(self) -> list[_Branch]:
        return [branch for branch in self.branches if branch.finished is None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A branch to continue."""

    beam: _Beam
    branch: _Branch
    seeds: Sequence[int]


def beam_search(
    problems: Sequence[SearchProblem], setting: SearchSetting, *, budget: int
) -> list[BeamResult]:
    """Search with ``budget`` continuations per round; results in the order of the problems.

    Raises:
        BadInputError: the budget is not a multiple of ``beam.expansion``, or values need
            log-probabilities that the engine does not report.
    """
    expansion = setting.params.beam.expansion
    if budget < expansion or budget % expansion:
        raise BadInputError(
            f"a beam of budget {budget} with test_time.beam.expansion={expansion}; "
            "a budget is a multiple of the expansion"
        )
    beams = [_Beam(problem=problem) for problem in problems]
    round_number = 0
    while any(beam.open for beam in beams):
        _advance(beams, setting, budget=budget, round_number=round_number)
        round_number += 1
    return [BeamResult(paths=tuple(map(_to_path, beam.branches)), cost=beam.cost) for beam in beams]


def _advance(
    beams: Sequence[_Beam], setting: SearchSetting, *, budget: int, round_number: int
) -> None:
    """One round of all open beams."""
    expansion = setting.params.beam.expansion
    jobs: list[_Job] = []
    for beam in beams:
        for place, branch in enumerate(beam.open):
            count = budget if round_number == 0 else expansion
            names = ("beam", budget, beam.problem.id, round_number, place)
            seeds = consecutive_seeds(count, setting.seed, *names)
            jobs.append(_Job(beam=beam, branch=branch, seeds=seeds))
    drawn = _draw(jobs, setting)
    for beam in beams:
        mine = [(job, drawn[place]) for place, job in enumerate(jobs) if job.beam is beam]
        if not mine:
            continue
        beam.cost = beam.cost.then(round_cost([completions for _, completions in mine]))
        grown = _deduplicate(
            _extend(job.branch, one, setting)
            for job, completions in mine
            for one in completions
            if one.error is None
        )
        grown = _score(beam, grown, setting)
        kept = [branch for branch in beam.branches if branch.finished is not None]
        beam.branches = _best([*kept, *grown], setting, width=budget // expansion)


def _draw(jobs: Sequence[_Job], setting: SearchSetting) -> Mapping[int, list[Completion]]:
    """The completions of each job; jobs with equal remaining tokens share a call."""
    most = setting.decoding.max_new_tokens
    groups: dict[tuple[int, bool], list[int]] = {}
    for place, job in enumerate(jobs):
        last = job.branch.num_steps + 1 >= setting.params.max_steps
        groups.setdefault((most - job.branch.tokens, last), []).append(place)
    drawn: dict[int, list[Completion]] = {}
    for (left, last), places in groups.items():
        stop = setting.decoding.stop if last else (setting.params.step_delimiter,)
        decoding = replace(setting.decoding, max_new_tokens=left, stop=stop)
        requests = [
            Request(
                prompt=jobs[place].beam.problem.prompt + jobs[place].branch.text,
                seeds=jobs[place].seeds,
            )
            for place in places
        ]
        drawn.update(zip(places, setting.model.complete(requests, decoding), strict=True))
    return drawn


def _extend(branch: _Branch, completion: Completion, setting: SearchSetting) -> _Branch:
    tokens = branch.tokens + completion.completion_tokens
    goes_on = completion.stopped_by == setting.params.step_delimiter
    known = branch.logprob is not None and completion.logprob is not None
    finished: FinishReason | None = completion.finish_reason
    if goes_on:
        # The token limit is reached: there is no next step.
        cut = tokens >= setting.decoding.max_new_tokens
        finished = FinishReason.LENGTH if cut else None
    return _Branch(
        text=branch.text + completion.text + (setting.params.step_delimiter if goes_on else ""),
        tokens=tokens,
        logprob=(branch.logprob or 0.0) + (completion.logprob or 0.0) if known else None,
        num_steps=branch.num_steps + 1,
        finished=finished,
    )


def _deduplicate(branches: Iterator[_Branch]) -> list[_Branch]:
    """Keep each text once, so that duplicates do not fill the beam."""
    return list({(one.text, one.finished): one for one in branches}.values())


def _score(beam: _Beam, branches: list[_Branch], setting: SearchSetting) -> list[_Branch]:
    if setting.params.beam.value != "self-certainty" or not branches:
        return branches
    assert setting.scorer is not None
    scores = setting.scorer.score(
        [
            ScoredText(
                prompt=beam.problem.prompt,
                text=branch.text,
                ended=branch.finished is FinishReason.STOP,
            )
            for branch in branches
        ]
    )
    read = sum(score.read_tokens for score in scores)
    beam.cost = beam.cost.then(Cost(scoring_tokens=read))
    return [
        replace(branch, certainty=score.self_certainty)
        for branch, score in zip(branches, scores, strict=True)
    ]


def _best(branches: Sequence[_Branch], setting: SearchSetting, *, width: int) -> list[_Branch]:
    value = _VALUES[setting.params.beam.value]
    return sorted(branches, key=value, reverse=True)[:width]


def _likelihood(branch: _Branch) -> float:
    if branch.logprob is None:
        raise BadInputError(
            "a step has no log-probability, the engine reported none; set "
            "test_time.beam.value=self-certainty, or use another engine"
        )
    return branch.logprob


_VALUES: Mapping[str, Callable[[_Branch], float]] = {
    "likelihood": _likelihood,
    "mean-logprob": lambda branch: _likelihood(branch) / max(branch.tokens, 1),
    "self-certainty": lambda branch: branch.certainty,
}


def _to_path(branch: _Branch) -> FoundPath:
    assert branch.finished is not None
    return FoundPath(
        text=branch.text,
        finish_reason=branch.finished,
        tokens=branch.tokens,
        logprob=branch.logprob,
    )
