"""Monte Carlo tree search over steps, with label-free values from rollouts.

A simulation selects a node by UCT and samples one completion from it, to the end. Its first step
becomes the new child, the whole completion is the child's rollout, so no token is sampled for the
tree alone. The rollouts are the candidates of a vote, and prefixes of their sequence give the curve
over budgets. Simulations of one problem are sequential; those of several problems are batched.

Source: Kocsis and Szepesvári 2006 (UCT); Chaslot et al. 2008 (progressive widening).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline_lib.engines.chat_model import Completion, Request
from pipeline_lib.engines.scored_text import ScoredText
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import TreeParams
from pipeline_lib.records import FinishReason
from pipeline_lib.sampling.compute_cost import NOTHING, Cost, request_cost
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.study.search.problem import FoundPath, SearchProblem, SearchSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeResult:
    """The rollouts of one problem, and the cumulative cost after each simulation."""

    rollouts: tuple[FoundPath | None, ...]
    """By simulation; None for a failed request."""
    costs: tuple[Cost, ...]
    """Cumulative, by simulation."""


@dataclass(slots=True, kw_only=True)
class Node:
    """A prefix of paths, ending at a step."""

    text: str = ""
    depth: int = 0
    ended: bool = False
    """A terminal node: nothing can be sampled from it."""
    num_draws: int = 0
    """Completions sampled from this node itself."""
    rollouts: list[int] = field(default_factory=list)
    """Indices of the rollouts through the node: its visits."""
    children: dict[str, "Node"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Label-free features of a rollout, from which values are computed."""

    answer: int | None
    logprob_per_token: float | None
    certainty: float | None


@dataclass(slots=True, kw_only=True)
class _Search:
    """One problem's state."""

    problem: SearchProblem
    root: Node = field(default_factory=Node)
    prompt_tokens: int | None = None
    """Of the problem's prompt; known after the first completion."""
    rollouts: list[Rollout] = field(default_factory=list)
    found: list[FoundPath | None] = field(default_factory=list)
    cost: Cost = NOTHING
    costs: list[Cost] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expansion:
    """The completion of one simulation, and the node it was sampled from."""

    search: _Search
    path: Sequence[Node]
    """From the root to the node."""
    completion: Completion


def uct(mean: float, visits: int, parent_visits: int, *, exploration: float) -> float:
    """Upper confidence bound of a child with this mean value in [0, 1].

    Source: Kocsis and Szepesvári 2006: mean + c * sqrt(ln n_parent / n_child).
    """
    return mean + exploration * math.sqrt(math.log(parent_visits) / visits)


def allowed_draws(visits: int, params: TreeParams) -> int:
    """Completions that progressive widening allows a node with ``visits`` visits."""
    return math.ceil(params.widening * math.pow(max(visits, 1), params.widening_power))


def agreement(rollouts: Sequence[Rollout]) -> list[float]:
    """Share of rollouts with the same answer, for each rollout; 0 without an answer."""
    counts = Counter(one.answer for one in rollouts if one.answer is not None)
    return [
        counts[one.answer] / len(rollouts) if one.answer is not None else 0.0 for one in rollouts
    ]


def _mean_logprobs(rollouts: Sequence[Rollout]) -> list[float]:
    """Mean log-probability per token, scaled to [0, 1] over the rollouts so far."""
    return _scaled([_known(one.logprob_per_token) for one in rollouts])


def _certainty(rollouts: Sequence[Rollout]) -> list[float]:
    return _scaled([_known(one.certainty) for one in rollouts])


def _known(value: float | None) -> float:
    if value is None:
        raise BadInputError(
            "a rollout has no log-probability, the engine reported none; set "
            "test_time.tree.value=agreement, or use another engine"
        )
    return value


def _scaled(values: Sequence[float]) -> list[float]:
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [(value - low) / (high - low) if high > low else 0.5 for value in values]


VALUES: Mapping[str, Callable[[Sequence[Rollout]], list[float]]] = {
    "agreement": agreement,
    "mean-logprob": _mean_logprobs,
    "self-certainty": _certainty,
}
"""Value functions of all rollouts so far; later rollouts change the values of earlier ones."""


def tree_search(
    problems: Sequence[SearchProblem], setting: SearchSetting, *, simulations: int
) -> list[TreeResult]:
    """Run ``simulations`` simulations per problem; results in the order of the problems.

    Raises:
        BadInputError: values need log-probabilities that the engine does not report.
    """
    searches = [_Search(problem=problem) for problem in problems]
    for number in range(simulations):
        paths = [_select_path(search, setting.params.tree) for search in searches]
        requests = [
            Request(
                prompt=search.problem.prompt + path[-1].text,
                seeds=consecutive_seeds(1, setting.seed, "tree", search.problem.id, number),
            )
            for search, path in zip(searches, paths, strict=True)
        ]
        drawn = setting.model.complete(requests, setting.decoding)
        grown = []
        for search, path, [completion] in zip(searches, paths, drawn, strict=True):
            path[-1].num_draws += 1
            search.cost = search.cost.then(request_cost([completion]))
            if completion.error is None:
                grown.append(_Expansion(search=search, path=path, completion=completion))
            else:
                search.found.append(None)
        _insert(grown, setting)
        for search in searches:
            search.costs.append(search.cost)
    return [
        TreeResult(rollouts=tuple(search.found), costs=tuple(search.costs)) for search in searches
    ]


def _select_path(search: _Search, params: TreeParams) -> list[Node]:
    """The nodes from the root to the selected one."""
    values = VALUES[params.value](search.rollouts)
    path = [search.root]
    while path[-1].num_draws >= allowed_draws(len(path[-1].rollouts), params):
        open_children = [child for child in path[-1].children.values() if not child.ended]
        if not open_children:
            break
        visits = len(path[-1].rollouts)
        bounds = [
            uct(
                math.fsum(values[place] for place in child.rollouts) / len(child.rollouts),
                len(child.rollouts),
                visits,
                exploration=params.exploration,
            )
            for child in open_children
        ]
        # The earliest child wins a tie.
        path.append(open_children[bounds.index(max(bounds))])
    return path


def _insert(grown: Sequence[_Expansion], setting: SearchSetting) -> None:
    """Add the completions to the trees."""
    wholes = [_join_path(growth, setting) for growth in grown]
    certainties = _score_certainty(grown, wholes, setting)
    for growth, found, certainty in zip(grown, wholes, certainties, strict=True):
        search, completion = growth.search, growth.completion
        child = _child(growth.path[-1], completion.text, setting)
        for node in (*growth.path, child):
            node.rollouts.append(len(search.rollouts))
        logprob = completion.logprob
        search.rollouts.append(
            Rollout(
                answer=search.problem.answer_of(found.text),
                logprob_per_token=logprob and logprob / max(completion.completion_tokens, 1),
                certainty=certainty,
            )
        )
        search.found.append(found)


def _join_path(growth: _Expansion, setting: SearchSetting) -> FoundPath:
    """The complete path; cut at its node if it exceeds the token limit."""
    search, node, completion = growth.search, growth.path[-1], growth.completion
    if search.prompt_tokens is None:
        # The first completion is sampled from the root.
        search.prompt_tokens = completion.prompt_tokens
    before = completion.prompt_tokens - search.prompt_tokens
    tokens = before + completion.completion_tokens
    if tokens > setting.decoding.max_new_tokens:
        return FoundPath(
            text=node.text, finish_reason=FinishReason.LENGTH, tokens=before, logprob=None
        )
    return FoundPath(
        text=node.text + completion.text,
        finish_reason=completion.finish_reason,
        tokens=tokens,
        logprob=completion.logprob if node.depth == 0 else None,
    )


def _child(node: Node, drawn: str, setting: SearchSetting) -> Node:
    """The child for the first step of a completion; created if new."""
    first, step, rest = drawn.partition(setting.params.step_delimiter)
    text = node.text + first + step
    if text not in node.children:
        depth = node.depth + 1
        ended = not rest or depth >= setting.params.max_steps
        node.children[text] = Node(text=text, depth=depth, ended=ended)
    return node.children[text]


def _score_certainty(
    grown: Sequence[_Expansion], wholes: Sequence[FoundPath], setting: SearchSetting
) -> list[float] | list[None]:
    if setting.params.tree.value != "self-certainty":
        return [None] * len(wholes)
    assert setting.scorer is not None
    scores = setting.scorer.score(
        [
            ScoredText(
                prompt=growth.search.problem.prompt,
                text=found.text,
                ended=found.finish_reason is FinishReason.STOP,
            )
            for growth, found in zip(grown, wholes, strict=True)
        ]
    )
    for growth, score in zip(grown, scores, strict=True):
        growth.search.cost = growth.search.cost.then(Cost(scoring_tokens=score.read_tokens))
    return [score.self_certainty for score in scores]
