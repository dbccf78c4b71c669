"""Label-free beam and tree search over reasoning steps.

A search sees the prompt and can group equivalent answers. It has no gold and no verdict; its paths
are judged afterwards, like any other. All problems of a call advance together.

Beam search samples N continuations of a step, keeps the best N / M, and continues each M times (Snell
et al. 2024, arXiv:2408.03314, section 5.1, with the policy's confidence instead of a verifier).

A simulation of tree search selects a node by UCT and samples one completion from it, to the end. Its
first step becomes the new child, the whole completion is the child's rollout, so no token is sampled for
the tree alone. The rollouts are the candidates of a vote, and prefixes of their sequence give the curve
over budgets (Kocsis and Szepesvári 2006, UCT; Chaslot et al. 2008, progressive widening).
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline_lib.engines.chat_model import (
    ChatModel,
    Completion,
    Decoding,
    Request,
    ScoredText,
    Scorer,
)
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import StrategyParams, TreeParams
from pipeline_lib.records import FinishReason
from pipeline_lib.sampling.compute_cost import NOTHING, Cost, request_cost, round_cost
from pipeline_lib.seeding import consecutive_seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProblem:
    """One problem without its gold."""

    id: str
    prompt: str
    """Rendered prompt, as sent to the engine."""
    answer_of: Callable[[str], int | None]
    """Number of the text's answer among the distinct answers so far; None without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSetting:
    """Model, decoding and params of a search."""

    model: ChatModel
    decoding: Decoding
    """``max_new_tokens`` bounds a whole path, over all its completions."""
    params: StrategyParams
    seed: int
    scorer: Scorer | None = None
    """Required if values are self-certainty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPath:
    """A path, joined from sampled steps."""

    text: str = ""
    finish_reason: FinishReason | None = None
    """None while the branch of a beam is open."""
    tokens: int = 0
    """Of the whole path."""
    logprob: float | None = 0.0
    """Of the whole path; None if unknown."""
    num_steps: int = 0
    certainty: float = 0.0


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
    certainty: float


@dataclass(slots=True, kw_only=True)
class Search:
    """The search of one problem."""

    problem: SearchProblem
    cost: Cost = NOTHING
    paths: list[FoundPath | None] = field(default_factory=list)
    """Of a beam, best first; of a tree, by simulation. None: every request of a beam, or the request of
    a simulation, failed."""
    costs: list[Cost] = field(default_factory=list)
    """Cumulative up to each path; a beam costs the same for all its paths."""
    branches: list[FoundPath] = field(default_factory=lambda: [FoundPath()])
    """Of a beam, the finished ones included."""
    root: Node = field(default_factory=Node)
    """Of a tree, as the following."""
    rollouts: list[Rollout] = field(default_factory=list)
    prompt_tokens: int | None = None
    """Of the problem's prompt; known after the first completion."""

    @property
    def open_branches(self) -> list[FoundPath]:
        """Those that a beam continues."""
        return [one for one in self.branches if one.finish_reason is None]


def beam_search(
    problems: Sequence[SearchProblem], setting: SearchSetting, *, budget: int
) -> list[Search]:
    """Search with ``budget`` continuations per round, a multiple of ``beam.expansion``.

    Raises:
        BadInputError: values need log-probabilities that the engine does not report.
    """
    width = budget // setting.params.beam.expansion
    searches = [Search(problem=problem) for problem in problems]
    for number in itertools.count():
        drawn = _draw_steps(searches, setting, budget=budget, number=number)
        if not drawn:
            break
        for search, steps in drawn:
            search.cost = search.cost.then(round_cost([step for _, step in steps]))
            _keep_best(search, steps, setting, width=width)
    for search in searches:
        search.paths = [*search.branches] or [None]
        search.costs = [search.cost] * len(search.paths)
    return searches


_Steps = list[tuple[FoundPath, Sequence[Completion]]]
"""Branches with their continuations."""


def _draw_steps(
    searches: Sequence[Search], setting: SearchSetting, *, budget: int, number: int
) -> list[tuple[Search, _Steps]]:
    """The continuations of all open branches; those with equal remaining tokens share a call."""
    params = setting.params
    drawn = [(search, search.open_branches) for search in searches if search.open_branches]
    batches: dict[Decoding, list[tuple[FoundPath, Request]]] = {}
    for search, branches in drawn:
        for place, branch in enumerate(branches):
            count = params.beam.expansion if number else budget
            names = ("beam", budget, search.problem.id, number, place)
            request = Request(
                prompt=search.problem.prompt + branch.text,
                seeds=consecutive_seeds(count, setting.seed, *names),
            )
            is_last = branch.num_steps + 1 >= params.max_steps
            decoding = replace(
                setting.decoding,
                max_new_tokens=setting.decoding.max_new_tokens - branch.tokens,
                stop=setting.decoding.stop if is_last else (params.step_delimiter,),
            )
            batches.setdefault(decoding, []).append((branch, request))
    steps: dict[int, list[Completion]] = {}
    for decoding, batch in batches.items():
        found = setting.model.complete([request for _, request in batch], decoding)
        steps |= {id(branch): one for (branch, _), one in zip(batch, found, strict=True)}
    return [
        (search, [(branch, steps[id(branch)]) for branch in branches]) for search, branches in drawn
    ]


def _keep_best(search: Search, steps: _Steps, setting: SearchSetting, *, width: int) -> None:
    grown = (
        _extend(branch, one, setting)
        for branch, drawn in steps
        for one in drawn
        if one.error is None
    )
    # Each text once, so that duplicates do not fill the beam.
    branches = [*{(one.text, one.finish_reason): one for one in grown}.values()]
    if setting.params.beam.value == "self-certainty":
        certain = _certainties([(search, one) for one in branches], setting)
        branches = [
            replace(one, certainty=value) for one, value in zip(branches, certain, strict=True)
        ]
    finished = [one for one in search.branches if one.finish_reason is not None]
    value_of = _BRANCH_VALUES[setting.params.beam.value]
    search.branches = sorted([*finished, *branches], key=value_of, reverse=True)[:width]


def _extend(branch: FoundPath, completion: Completion, setting: SearchSetting) -> FoundPath:
    tokens = branch.tokens + completion.completion_tokens
    finished: FinishReason | None = completion.finish_reason
    goes_on = completion.stopped_by == setting.params.step_delimiter
    if goes_on:
        # The token limit is reached: there is no next step.
        cut = tokens >= setting.decoding.max_new_tokens
        finished = FinishReason.LENGTH if cut else None
    known = branch.logprob is not None and completion.logprob is not None
    return FoundPath(
        text=branch.text + completion.text + (setting.params.step_delimiter if goes_on else ""),
        finish_reason=finished,
        tokens=tokens,
        logprob=(branch.logprob or 0.0) + (completion.logprob or 0.0) if known else None,
        num_steps=branch.num_steps + 1,
    )


def _certainties(found: Sequence[tuple[Search, FoundPath]], setting: SearchSetting) -> list[float]:
    """Self-certainty of each path; what the scorer reads is a cost of its search."""
    assert setting.scorer is not None
    if not found:
        return []
    scores = setting.scorer.score(
        [
            ScoredText(
                prompt=search.problem.prompt,
                text=path.text,
                ended=path.finish_reason is FinishReason.STOP,
            )
            for search, path in found
        ]
    )
    for (search, _), score in zip(found, scores, strict=True):
        search.cost = search.cost.then(Cost(scoring_tokens=score.read_tokens))
    return [score.self_certainty for score in scores]


def _known(logprob: float | None, param: str) -> float:
    if logprob is None:
        raise BadInputError(
            f"a path has no log-probability, the engine reported none; set test_time.{param}, or use "
            "another engine"
        )
    return logprob


def _likelihood(branch: FoundPath) -> float:
    return _known(branch.logprob, "beam.value=self-certainty")


_BRANCH_VALUES: Mapping[str, Callable[[FoundPath], float]] = {
    "likelihood": _likelihood,
    "mean-logprob": lambda branch: _likelihood(branch) / max(branch.tokens, 1),
    "self-certainty": lambda branch: branch.certainty,
}


def uct(mean: float, visits: int, parent_visits: int, *, exploration: float) -> float:
    """Upper confidence bound of a child with this mean value in [0, 1].

    Source: Kocsis and Szepesvári 2006: mean + c * sqrt(ln n_parent / n_child).
    """
    return mean + exploration * math.sqrt(math.log(parent_visits) / visits)


def allowed_draws(visits: int, params: TreeParams) -> int:
    """Completions that progressive widening allows a node with ``visits`` visits."""
    return math.ceil(params.widening * math.pow(max(visits, 1), params.widening_power))


def _agreement(rollouts: Sequence[Rollout]) -> list[float]:
    """Share of rollouts with the same answer, for each rollout; 0 without an answer."""
    counts = Counter(one.answer for one in rollouts)
    return [0.0 if one.answer is None else counts[one.answer] / len(rollouts) for one in rollouts]


def _scaled(values: Sequence[float]) -> list[float]:
    """Scaled to [0, 1] over the rollouts so far."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [(value - low) / (high - low) if high > low else 0.5 for value in values]


VALUES: Mapping[str, Callable[[Sequence[Rollout]], list[float]]] = {
    "agreement": _agreement,
    "mean-logprob": lambda rollouts: _scaled(
        [_known(one.logprob_per_token, "tree.value=agreement") for one in rollouts]
    ),
    "self-certainty": lambda rollouts: _scaled([one.certainty for one in rollouts]),
}
"""Value functions of all rollouts so far; later rollouts change the values of earlier ones."""


def tree_search(
    problems: Sequence[SearchProblem], setting: SearchSetting, *, simulations: int
) -> list[Search]:
    """Run ``simulations`` simulations per problem; results in the order of the problems.

    Raises:
        BadInputError: values need log-probabilities that the engine does not report.
    """
    searches = [Search(problem=problem) for problem in problems]
    for number in range(simulations):
        selected = [_select(search, setting.params.tree) for search in searches]
        requests = [
            Request(
                prompt=search.problem.prompt + nodes[-1].text,
                seeds=consecutive_seeds(1, setting.seed, "tree", search.problem.id, number),
            )
            for search, nodes in zip(searches, selected, strict=True)
        ]
        drawn = setting.model.complete(requests, setting.decoding)
        for search, nodes, [completion] in zip(searches, selected, drawn, strict=True):
            nodes[-1].num_draws += 1
            search.cost = search.cost.then(request_cost([completion]))
            search.paths.append(_join(search, nodes[-1], completion, setting))
        grown = [(search, path) for search in searches if (path := search.paths[-1]) is not None]
        certain = [0.0] * len(grown)
        if setting.params.tree.value == "self-certainty":
            certain = _certainties(grown, setting)
        values = dict(zip((search.problem.id for search, _ in grown), certain, strict=True))
        for search, nodes, [completion] in zip(searches, selected, drawn, strict=True):
            if completion.error is None:
                _insert(search, nodes, completion, setting, certainty=values[search.problem.id])
            search.costs.append(search.cost)
    return searches


def _select(search: Search, params: TreeParams) -> list[Node]:
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


def _join(
    search: Search, node: Node, completion: Completion, setting: SearchSetting
) -> FoundPath | None:
    """The complete path; cut at its node if it exceeds the token limit; None for a failed request."""
    if completion.error is not None:
        return None
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


def _insert(
    search: Search,
    nodes: Sequence[Node],
    completion: Completion,
    setting: SearchSetting,
    *,
    certainty: float,
) -> None:
    """Add the last path of a search to its tree; the first step of the completion is the child."""
    node, path = nodes[-1], search.paths[-1]
    assert path is not None
    first, step, rest = completion.text.partition(setting.params.step_delimiter)
    text, depth = node.text + first + step, node.depth + 1
    ended = not rest or depth >= setting.params.max_steps
    child = node.children.setdefault(text, Node(text=text, depth=depth, ended=ended))
    for visited in (*nodes, child):
        visited.rollouts.append(len(search.rollouts))
    logprob = completion.logprob
    search.rollouts.append(
        Rollout(
            answer=search.problem.answer_of(path.text),
            logprob_per_token=logprob and logprob / max(completion.completion_tokens, 1),
            certainty=certainty,
        )
    )
