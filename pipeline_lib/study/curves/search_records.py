"""Search results of a shard as records: paths to be judged, and cumulative costs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from pipeline_lib.params.evaluate import Strategy
from pipeline_lib.records import FinishReason, Path, Problem, Provenance, Row
from pipeline_lib.sampling.accounting import Spent
from pipeline_lib.sampling.compute_cost import NOTHING
from pipeline_lib.sampling.paths import provenance_of
from pipeline_lib.sampling.prompts import render, template_digest
from pipeline_lib.study.search import (
    FoundPath,
    SearchProblem,
    SearchSetting,
    beam_search,
    tree_search,
)
from pipeline_lib.verify.dispatch import AnswerBook, Verifier

COSTS = "search-costs"
"""Kind of the tables of search costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecords:
    """Paths and costs of the searches of several problems, problem by problem."""

    paths: tuple[Path, ...]
    """The last branches of a beam, best first; the rollouts of a tree, in order. A failed search
    has one path with an error."""
    costs: tuple[Row, ...]
    """``problem_id``, ``index`` and the fields of `Cost`, cumulative up to this path."""
    spent: Spent


def search_problems(
    problems: Sequence[Problem],
    setting: SearchSetting,
    verifier: Verifier,
    *,
    strategy: Strategy,
    budget: int,
) -> SearchRecords:
    """Search every problem with one strategy.

    The search gets the prompt and the grouping of equivalent answers, never the gold.
    """
    blind = [
        SearchProblem(
            id=problem.id,
            prompt=render(problem, setting.model.chat_format),
            answer_of=AnswerBook(kind=problem.kind, verifier=verifier).number,
        )
        for problem in problems
    ]
    if strategy is Strategy.BEAM:
        found = beam_search(blind, setting, budget=budget)
    else:
        found = tree_search(blind, setting, simulations=budget)
    paths: list[Path] = []
    costs: list[Row] = []
    total = NOTHING
    for problem, one in zip(problems, found, strict=True):
        template = template_digest(problem.kind, setting.model.chat_format)
        provenance = provenance_of(template, setting.model, setting.seed, setting.decoding)
        for index, (path, cost) in enumerate(zip(one.paths, one.costs, strict=True)):
            paths.append(_path(problem.id, index, path, provenance))
            costs.append({"problem_id": problem.id, "index": index, **asdict(cost)})
        total = total.beside(one.costs[-1])
    spent = Spent(
        requests=total.calls,
        prompt_tokens=total.prompt_tokens,
        cached_tokens=total.cached_tokens,
        completion_tokens=total.completion_tokens,
    )
    return SearchRecords(paths=tuple(paths), costs=tuple(costs), spent=spent)


def _path(problem_id: str, index: int, found: FoundPath | None, provenance: Provenance) -> Path:
    failed = Path(
        problem_id=problem_id,
        index=index,
        text="",
        finish_reason=FinishReason.ERROR,
        prompt_tokens=0,
        completion_tokens=0,
        logprob=None,
        provenance=provenance,
        error="a request of the search failed",
    )
    if found is None:
        return failed
    assert found.finish_reason is not None
    return replace(
        failed,
        text=found.text,
        finish_reason=found.finish_reason,
        completion_tokens=found.tokens,
        logprob=found.logprob,
        error=None,
    )
