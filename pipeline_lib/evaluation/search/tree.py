"""Monte Carlo tree search over steps, whose values come from rollouts and from no label.

A simulation selects a node by UCT and draws one completion from it, to the end. Its first step is
the new child, all of it is the child's rollout: no token is drawn for the tree alone. The rollouts
in their order are what is handed to a vote, so one search gives a curve over budgets. The
simulations of a problem wait for each other; those of several problems are drawn together.

Source: Kocsis and Szepesvári 2006 (UCT); Chaslot et al. 2008 (progressive widening).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline_lib.errors import BadInputError
from pipeline_lib.evaluation.search.problem import FoundPath, SearchProblem, SearchSetting
from pipeline_lib.params.evaluate import TreeParams
from pipeline_lib.records import FinishReason
from pipeline_lib.sampling.compute_cost import NOTHING, Cost, request_cost
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.serving.chat_model import Completion, Request
from pipeline_lib.serving.scored_text import ScoredText


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeResult:
    """The rollouts of one problem, and what it had cost after each simulation."""

    rollouts: tuple[FoundPath | None, ...]
    """By simulation; None where the request failed."""
    costs: tuple[Cost, ...]
    """Of all simulations up to this one."""


@dataclass(slots=True, kw_only=True)
class Node:
    """A beginning of a path, at the end of a step."""

    text: str = ""
    depth: int = 0
    ended: bool = False
    """Nothing can be drawn from it."""
    num_draws: int = 0
    """Completions that were drawn from this very node."""
    rollouts: list[int] = field(default_factory=list)
    """Numbers of the rollouts that go through it: its visits."""
    children: dict[str, "Node"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What values are made of."""

    answer: int | None
    logprob_a_token: float | None
    certainty: float | None


@dataclass(slots=True, kw_only=True)
class _Search:
    """One problem's state."""

    problem: SearchProblem
    root: Node = field(default_factory=Node)
    prompt_tokens: int | None = None
    """Of the problem alone; known once it was asked."""
    rollouts: list[Rollout] = field(default_factory=list)
    found: list[FoundPath | None] = field(default_factory=list)
    cost: Cost = NOTHING
    costs: list[Cost] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth:
    """What one simulation drew, and from which node."""

    search: _Search
    path: Sequence[Node]
    """From the root to the node."""
    completion: Completion


def uct(mean: float, visits: int, parent_visits: int, *, exploration: float) -> float:
    """Upper confidence bound of a child whose rollouts have this mean value in [0, 1].

    Source: Kocsis and Szepesvári 2006: mean + c * sqrt(ln n_parent / n_child).
    """
    return mean + exploration * math.sqrt(math.log(parent_visits) / visits)


def allowed_draws(visits: int, params: TreeParams) -> int:
    """How many completions a node with so many visits may have had, by progressive widening."""
    return math.ceil(params.widening * math.pow(max(visits, 1), params.widening_power))


def agreement(rollouts: Sequence[Rollout]) -> list[float]:
    """For each rollout the share of all rollouts that give its answer; 0 without one."""
    counts = Counter(one.answer for one in rollouts if one.answer is not None)
    return [
        counts[one.answer] / len(rollouts) if one.answer is not None else 0.0 for one in rollouts
    ]


def _sureness(rollouts: Sequence[Rollout]) -> list[float]:
    """Mean log-probability a token, scaled to [0, 1] over the rollouts so far."""
    return _scaled([_known(one.logprob_a_token) for one in rollouts])


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
    "mean-logprob": _sureness,
    "self-certainty": _certainty,
}
"""The value of each rollout as things stand: it changes with the rollouts that follow."""


def tree_search(
    problems: Sequence[SearchProblem], setting: SearchSetting, *, simulations: int
) -> list[TreeResult]:
    """Run so many simulations of each problem, in the order of the problems.

    Raises:
        BadInputError: values need log-probabilities that the engine does not report.
    """
    searches = [_Search(problem=problem) for problem in problems]
    for number in range(simulations):
        paths = [_path_to_grow(search, setting.params.tree) for search in searches]
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
                grown.append(_Growth(search=search, path=path, completion=completion))
            else:
                search.found.append(None)
        _take(grown, setting)
        for search in searches:
            search.costs.append(search.cost)
    return [
        TreeResult(rollouts=tuple(search.found), costs=tuple(search.costs)) for search in searches
    ]


def _path_to_grow(search: _Search, params: TreeParams) -> list[Node]:
    """The nodes from the root to the one that is drawn from."""
    values = VALUES[params.value](search.rollouts)
    path = [search.root]
    while path[-1].num_draws >= allowed_draws(len(path[-1].rollouts), params):
        going_on = [child for child in path[-1].children.values() if not child.ended]
        if not going_on:
            break
        visits = len(path[-1].rollouts)
        bounds = [
            uct(
                math.fsum(values[place] for place in child.rollouts) / len(child.rollouts),
                len(child.rollouts),
                visits,
                exploration=params.exploration,
            )
            for child in going_on
        ]
        # The earliest child wins a tie.
        path.append(going_on[bounds.index(max(bounds))])
    return path


def _take(grown: Sequence[_Growth], setting: SearchSetting) -> None:
    """Put what was drawn into the trees and the books."""
    wholes = [_whole(growth, setting) for growth in grown]
    certainties = _certainties(grown, wholes, setting)
    for growth, found, certainty in zip(grown, wholes, certainties, strict=True):
        search, completion = growth.search, growth.completion
        child = _child(growth.path[-1], completion.text, setting)
        for node in (*growth.path, child):
            node.rollouts.append(len(search.rollouts))
        logprob = completion.logprob
        search.rollouts.append(
            Rollout(
                answer=search.problem.answer_of(found.text),
                logprob_a_token=logprob and logprob / max(completion.completion_tokens, 1),
                certainty=certainty,
            )
        )
        search.found.append(found)


def _whole(growth: _Growth, setting: SearchSetting) -> FoundPath:
    """The path from the problem on; one that is too long as a whole ends where it was drawn from."""
    search, node, completion = growth.search, growth.path[-1], growth.completion
    if search.prompt_tokens is None:
        # The first completion is drawn from the root.
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
    """The child for the first step of what was drawn, new or known."""
    first, step, rest = drawn.partition(setting.params.step_delimiter)
    text = node.text + first + step
    if text not in node.children:
        depth = node.depth + 1
        ended = not rest or depth >= setting.params.max_steps
        node.children[text] = Node(text=text, depth=depth, ended=ended)
    return node.children[text]


def _certainties(
    grown: Sequence[_Growth], wholes: Sequence[FoundPath], setting: SearchSetting
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
