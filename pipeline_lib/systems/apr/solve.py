"""Questions, answered by a language model that may spawn threads, within limits."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from pipeline_lib.engines.chat_model import ChatFormat, ChatModel, Decoding, Message
from pipeline_lib.engines.client.client import OpenAIModel, ServerChat
from pipeline_lib.engines.client.session import EndpointDraws, SingleDraws
from pipeline_lib.engines.embedded.draws import LiveDraws, open_live
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.errors import BadInputError
from pipeline_lib.study.pages.wording import words
from pipeline_lib.systems.apr.draw_text import TextTokens
from pipeline_lib.systems.apr.language import (
    ANSWER,
    TagDraws,
    TagGrammar,
    as_messages,
    ask,
    rendered,
)
from pipeline_lib.systems.apr.rollout import Rollout, Root
from pipeline_lib.systems.apr.runtime import Limits, Runtime
from pipeline_lib.systems.apr.scheduler import run_rollouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer, and the rollout that it ends."""

    text: str
    rollout: Rollout


def solve_all(
    engine: ChatModel,
    questions: Sequence[str],
    *,
    limits: Limits,
    decoding: Decoding,
    concurrency: int,
    seed: int,
) -> list[Answer]:
    """Answer ``questions`` at once; the answer of a failed rollout is empty.

    ``limits`` bound the threads of each question, ``decoding`` each draw, ``concurrency`` the draws in flight.

    Raises:
        BadInputError: a question is empty, or fills the model's context.
        ReasonloopError: the engine is gone.
    """
    if not all(question.strip() for question in questions):
        raise BadInputError("the question is empty")
    is_chat = isinstance(engine.chat_format, ServerChat)
    roots = [
        Root(problem_id="question", sample=place, prompt=ask(question))
        for place, question in enumerate(questions)
    ]
    window = None if is_chat else _window(engine, [root.prompt for root in roots])

    async def run() -> list[Rollout]:
        async with _open_draws(engine) as draws:
            runtime = Runtime(
                grammar=TagGrammar(shares_prefix=not is_chat),
                draws=TagDraws(draws=draws, wire=_wire(engine.chat_format)),
                decoding=decoding,
                slots=asyncio.Semaphore(concurrency),
                seed=seed,
                tokens=_tokens(engine),
                window=window,
                limits=limits,
            )
            return await run_rollouts(runtime, roots)

    return [Answer(text=_answer_of(one), rollout=one) for one in asyncio.run(run())]


def _window(engine: ChatModel, texts: Sequence[str]) -> int | None:
    """Tokens of the model's context; None if it is unknown.

    Raises:
        BadInputError: a text fills it.
    """
    wire, tokens = _wire(engine.chat_format), _tokens(engine)
    window = None
    for text in texts:
        room = engine.room(wire(text))
        if room is not None and room < 1:
            raise BadInputError(
                f"the question leaves no room in the model's context ({room} tokens)"
            )
        if room is not None and tokens is not None:
            window = room + len(tokens.encode(text))
    return window


def _answer_of(rollout: Rollout) -> str:
    if rollout.error is not None:
        return ""
    last = rollout.last
    _, _, answer = (last.prefix + last.output).partition(ANSWER)
    return answer.strip()


def _wire(chat_format: ChatFormat | None) -> Callable[[str], str]:
    """Rendering of texts for the engine: as messages, by the model's chat template, or plain without one."""
    if isinstance(chat_format, ServerChat):
        return as_messages
    if chat_format is None:
        return rendered(lambda message: f"{message}\n\nAnswer:")
    return rendered(lambda message: chat_format.render([Message.user(message)]))


def _tokens(engine: ChatModel) -> TextTokens | None:
    """Tokens of texts on the wire; None if they are unknown here."""
    wire = _wire(engine.chat_format)
    if isinstance(engine, EmbeddedEngine):
        plain = TextTokens.of(engine.tokenizer)
        return replace(plain, encode=lambda text: plain.encode(wire(text)))
    encode = engine.encode if isinstance(engine, OpenAIModel) else None
    if encode is None or isinstance(engine.chat_format, ServerChat):
        return None
    return TextTokens(encode=lambda text: encode(wire(text)))


@asynccontextmanager
async def _open_draws(engine: ChatModel) -> AsyncIterator[SingleDraws]:
    if isinstance(engine, EmbeddedEngine):
        async with open_live(engine) as live:
            yield LiveDraws(engine=live)
        return
    assert isinstance(engine, OpenAIModel)
    async with engine.open() as session:
        yield EndpointDraws(session=session)


def account(rollout: Rollout) -> list[str]:
    """Calls, tokens and events of a rollout, as lines for the console."""
    cost, events = rollout.cost, rollout.events
    tokens = (
        f"tokens: {cost.completion_tokens} drawn, {cost.critical_tokens} on the critical path, "
        f"{rollout.total_tokens} in all threads with prompts, {rollout.longest_tokens} in the longest"
    )
    calls = (
        f"calls: {cost.calls}, {cost.failed_calls} failed; the parent ended: {rollout.end.value}"
    )
    counted = [f"{count} {words(event.value)}" for event, count in sorted((+events).items())]
    return [calls, tokens, f"counted: {', '.join(counted) or 'nothing'}"]
