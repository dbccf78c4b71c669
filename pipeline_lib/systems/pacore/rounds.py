"""Rounds of parallel paths for one question, without I/O.

`solve` is a generator: it yields requests that are sent together, receives their completions, and
returns the solution. `drive` connects generators to a model. What is asked depends on the seed, the
question's id and the indices of paths, never on the order in which calls end.

Sources: PaCoRe, arXiv:2601.05593; recursive self-aggregation, arXiv:2509.26626.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pipeline_lib.engines.chat_model import Completion, Decoding, Request
from pipeline_lib.params.pacore import EarlyStop, PacoreParams
from pipeline_lib.sampling.compute_cost import NOTHING, round_cost
from pipeline_lib.seeding import child_random, consecutive_seeds
from pipeline_lib.systems.pacore.solution import (
    FittedPrompt,
    PromptForm,
    Question,
    Round,
    Solution,
    given_round,
    summary_prompt,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """Paths of a round, and the references that each of them sees."""

    width: int
    subset: int | None = None
    """References per path, drawn at random for each; None: all, in one order for all paths."""


def make_plan(params: PacoreParams, *, answers: int = 1) -> list[RoundPlan]:
    """The rounds of ``params``; the last one has ``answers`` paths, or those of a vote."""
    subset = params.rsa.subset if params.rsa else None
    widths = (params.rsa.population,) * params.rsa.steps if params.rsa else params.widths
    last = () if params.votes else (answers,)
    return [RoundPlan(width=width, subset=subset) for width in (*widths, *last)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Requests that are sent together."""

    requests: Sequence[Request]
    decoding: Decoding
    are_last: bool = False
    """Their completions are the answers."""


_Key = tuple[str | None, str, int, Decoding]
Memory = dict[_Key, Completion]
"""Completions by model, prompt, seed and decoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Rounds, prompts, decoding and seed, the same for all questions of a batch."""

    plan: Sequence[RoundPlan]
    form: PromptForm
    decoding: Decoding
    last_decoding: Decoding
    """Of the last of several rounds."""
    seed: int
    summary: Decoding | None = None
    """Decoding of a summary per path, which is compacted in place of the path; None: no summaries."""
    summary_fits: Callable[[str], bool] = lambda _prompt: True
    """False: prompt and summary exceed the model's context; it is not asked for, and the path has no message."""
    early_stop: EarlyStop | None = None
    elect: Callable[[Sequence[Completion]], int] | None = None
    """The path of the last round that is the answer; None: the last round gives the answers."""
    open_answers: Callable[[], Callable[[str], int | None]]
    """Numbers the answers of one question, None: a text without an answer; called for an early stop alone."""
    models: Sequence[str] = ()
    """Models that share each round: path i is drawn by model i mod m, the round of the answers by the first of them.
    Empty: the engine has one model."""
    memory: Memory | None = None
    """Calls that are in it are not sent again, and those that are sent are added; their cost counts in each
    solution."""


Drawn = Sequence[Sequence[Completion]]
"""The completions of each request of `Calls`."""
_T = TypeVar("_T")
_Steps = Generator[Calls, Drawn, _T]
Exchange = _Steps[Solution]
"""Yields calls, receives the completions of each request, returns the solution."""


OnRound = Callable[[Round], None]
"""Called with each round when it is drawn and compacted."""


def solve(question: Question, setting: Setting, *, on_round: OnRound | None = None) -> Exchange:
    """Draw the rounds of the plan, each with the messages of the one before as references."""
    exchange = _solve(question, setting, on_round=on_round)
    return exchange if setting.memory is None else _remember(exchange, setting.memory)


def advance(exchange: Exchange, drawn: Drawn | None) -> Calls | Solution:
    """The next calls of an exchange, or its solution; ``drawn`` is None at its start."""
    try:
        return exchange.send(drawn) if drawn is not None else next(exchange)
    except StopIteration as end:
        solution: Solution = end.value
        return solution


def _remember(exchange: Exchange, memory: Memory) -> Exchange:
    following = advance(exchange, None)
    while isinstance(following, Calls):
        keys = [_keys(one, following.decoding) for one in following.requests]
        unknown = [
            replace(one, seeds=[key[2] for key in own if key not in memory])
            for one, own in zip(following.requests, keys, strict=True)
        ]
        if unknown := [one for one in unknown if one.seeds]:
            drawn = yield replace(following, requests=unknown)
            for one, completions in zip(unknown, drawn, strict=True):
                memory.update(zip(_keys(one, following.decoding), completions, strict=True))
        known = [[memory[key] for key in own] for own in keys]
        following = advance(exchange, known)
    return following


def _keys(request: Request, decoding: Decoding) -> list[_Key]:
    return [(request.model, request.prompt, seed, decoding) for seed in request.seeds]


def _solve(question: Question, setting: Setting, *, on_round: OnRound | None) -> Exchange:
    rounds: list[Round] = []
    for number in range(1, len(setting.plan) + 1):
        if number == 1 and question.responses:
            drawn = given_round(question.responses)
        else:
            drawn = yield from _draw_round(question, setting, number, rounds)
        if number < len(setting.plan):
            drawn = yield from _compact(question, setting, number, drawn)
        rounds.append(drawn)
        if on_round is not None:
            on_round(drawn)
    elected = setting.elect(rounds[-1].completions) if setting.elect else None
    return Solution(question=question, rounds=rounds, elected=elected)


def _gives_answers(number: int, setting: Setting) -> bool:
    return number == len(setting.plan) and setting.elect is None


def _draw_round(
    question: Question, setting: Setting, number: int, rounds: Sequence[Round]
) -> _Steps[Round]:
    """A round without its messages."""
    plan, is_last = setting.plan[number - 1], _gives_answers(number, setting)
    early_stop = None if is_last else setting.early_stop
    prompts = _prompts(question, setting, number, rounds)
    seeds = consecutive_seeds(plan.width, setting.seed, "pacore", question.id, number)
    number_of = setting.open_answers() if early_stop else None
    answers: list[int | None] = []
    group = early_stop.minimum if early_stop else plan.width
    completions: list[Completion] = []
    cost = NOTHING
    for start in range(0, plan.width, group):
        paths = range(start, min(start + group, plan.width))
        calls = [
            Request(
                prompt=prompts[path].text,
                seeds=[seeds[path]],
                model=_model_of(path, number, setting),
            )
            for path in paths
        ]
        drawn = yield Calls(
            requests=_merge(calls),
            decoding=setting.last_decoding if is_last and number > 1 else setting.decoding,
            are_last=is_last,
        )
        cost = cost.then(round_cost(drawn))
        new = [*itertools.chain.from_iterable(drawn)]
        completions += new
        if early_stop is not None and number_of is not None:
            answers += [number_of(one.text) if one.text else None for one in new]
            if _agree(answers, early_stop.share):
                break
    asked = prompts[: len(completions)]
    return Round(
        completions=completions,
        messages=[None] * len(completions),
        references=[prompt.shown for prompt in asked],
        width=plan.width,
        dropped=sum(prompt.dropped for prompt in asked),
        cost=cost,
    )


def _agree(answers: Sequence[int | None], share: float) -> bool:
    """True if the leading answer has its share of all."""
    votes = Counter(answer for answer in answers if answer is not None)
    return bool(votes) and max(votes.values()) >= share * len(answers)


def _compact(question: Question, setting: Setting, number: int, drawn: Round) -> _Steps[Round]:
    """The round with its messages; summaries are drawn first if the setting asks for them."""
    texts = [one.text for one in drawn.completions]
    cost = drawn.cost
    if setting.summary is not None:
        asked = _summary_requests(question, setting, number, drawn)
        summaries: Drawn = ()
        if asked:
            summaries = yield Calls(requests=[*asked.values()], decoding=setting.summary)
        cost = cost.then(round_cost(summaries))
        texts = [""] * len(texts)
        for path, [summary] in zip(asked, summaries, strict=True):
            texts[path] = summary.text
    messages = [setting.form.message_of(text) if text else None for text in texts]
    return replace(drawn, messages=messages, cost=cost)


def _summary_requests(
    question: Question, setting: Setting, number: int, drawn: Round
) -> dict[int, Request]:
    """The requests for summaries, by path; none for an empty path or where the context has no room."""
    seeds = consecutive_seeds(drawn.width, setting.seed, "pacore-summary", question.id, number)
    prompts = {
        path: setting.form.chat_format.render(summary_prompt(question.conversation, one.text))
        for path, one in enumerate(drawn.completions)
        if one.text
    }
    return {
        path: Request(prompt=prompt, seeds=[seeds[path]], model=_model_of(path, number, setting))
        for path, prompt in prompts.items()
        if setting.summary_fits(prompt)
    }


def _prompts(
    question: Question, setting: Setting, number: int, rounds: Sequence[Round]
) -> list[FittedPrompt]:
    """The prompt of each path of a round."""
    plan = setting.plan[number - 1]
    messages = rounds[-1].messages if rounds else ()
    known = [(path, text) for path, text in enumerate(messages) if text]
    names = ("pacore", question.id, number)
    if plan.subset is None or not known:
        child_random(setting.seed, *names).shuffle(known)
        return [setting.form.fit(question.conversation, known)] * plan.width
    size = min(plan.subset, len(known))
    chosen = (
        child_random(setting.seed, *names, path).sample(known, size) for path in range(plan.width)
    )
    return [setting.form.fit(question.conversation, references) for references in chosen]


def _model_of(path: int, number: int, setting: Setting) -> str | None:
    """The model of a path of round ``number``; None if the engine has one."""
    if not setting.models:
        return None
    return setting.models[0 if _gives_answers(number, setting) else path % len(setting.models)]


def _merge(calls: Sequence[Request]) -> list[Request]:
    """One request for neighbouring calls with the same prompt and model."""
    grouped = itertools.groupby(calls, key=lambda call: (call.prompt, call.model))
    return [
        Request(prompt=prompt, seeds=[seed for call in same for seed in call.seeds], model=model)
        for (prompt, model), same in grouped
    ]
