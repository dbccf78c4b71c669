"""Questions, answered by a language model that may spawn threads, within limits."""

import asyncio
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import ChatFormat, ChatModel, Decoding, Message
from pipeline_lib.engines.client.client import OpenAIModel, ServerChat
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.errors import BadInputError
from pipeline_lib.study.pages.wording import words
from pipeline_lib.systems.apr.runtime import Limits, Runtime, TextTokens
from pipeline_lib.systems.apr.scheduler import draw_rollouts
from pipeline_lib.systems.apr.threads import Child, Rollout, Root, Spawn

ANSWER = "\x1e"
"""Separates the user's message from the answer; it is in neither."""
_SPAWN, _END_SPAWN, _JOIN, _END_JOIN = "<spawn>", "</spawn>", "<join>", "</join>"
_TASK = re.compile(r"<task>(.*?)</task>", re.DOTALL)
_TAG = re.compile(r"</?(?:spawn|task|join|result)>")
_INSTRUCTION = f"""\
Answer the question below. Parts of the work that do not depend on each other can be done at the same time: write
{_SPAWN}
<task>one part, with all that is needed to do it</task>
<task>another part</task>
{_END_SPAWN}
and stop there. The results follow between {_JOIN} and {_END_JOIN}. Then go on, and end with the final answer.

Question: """
_TASK_MESSAGE = """\
This is one part of the work on a larger question. Do this part alone, and end with its result.

What is known so far:
{context}

The part: {task}"""
_CONTINUE = "Go on from where your answer ends. Repeat nothing of it."


def ask(question: str) -> str:
    """The text of a parent before its first draw."""
    return f"{_INSTRUCTION}{question.replace(ANSWER, ' ')}{ANSWER}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagGrammar:
    """Implements ThreadGrammar for any language model."""

    shares_prefix: bool
    """Children go on from their parent's text, whose keys the engine may still have; otherwise each is a message
    of its own, since a server that renders messages continues no text."""

    @property
    def forbidden(self) -> Mapping[str, str]:
        """A join is written by the runtime alone."""
        return {_JOIN: _SPAWN}

    @property
    def terminators(self) -> Collection[str]:
        """Nothing is drawn behind a spawn block before its children have ended."""
        return (_END_SPAWN,)

    def find_spawn(self, text: str) -> Spawn | None:
        """The spawn block that ends the answer, if it has a task."""
        message, separator, answer = text.partition(ANSWER)
        before, opened, block = answer.rstrip().rpartition(_SPAWN)
        tasks = [task.strip() for task in _TASK.findall(block)]
        if not opened or not block.endswith(_END_SPAWN) or not any(tasks):
            return None
        before = f"{message}{separator}{before}"
        children = [
            Child(name=str(place), prompt=self._prompt(before, task) if task else None)
            for place, task in enumerate(tasks)
        ]
        return Spawn(before=before, children=children)

    def _prompt(self, before: str, task: str) -> str:
        if self.shares_prefix:
            return f"{before}<task>{task}</task>\n"
        message, _, answer = before.partition(ANSWER)
        context = f"{message.removeprefix(_INSTRUCTION)}\n{answer}".strip()
        return _TASK_MESSAGE.format(context=context, task=task) + ANSWER

    def read_result(self, output: str) -> str | None:
        """A child's text after its last join, without tags; None if it is empty."""
        _, _, text = output.rpartition(_END_JOIN)
        removed = 1
        # The ends of a text around a tag may form another one.
        while removed:
            text, removed = _TAG.subn("", text)
        return text.strip() or None

    def join(self, spawn: Spawn, results: Sequence[str | None]) -> str:
        """The answer with the results in the place of the spawn block."""
        shown = "".join(f"<result>{one or 'none'}</result>\n" for one in results)
        return f"{spawn.before}{_JOIN}\n{shown}{_END_JOIN}\n"


def rendered(render: Callable[[str], str]) -> Callable[[str], str]:
    """Texts as prompts: the message by ``render``, then the answer. A text without a message stays as it is."""

    def wire(text: str) -> str:
        message, separator, answer = text.partition(ANSWER)
        return render(message) + answer if separator else text

    return wire


def as_messages(text: str) -> str:
    """The messages of a text as JSON: the user's, and a begun answer with the request to go on."""
    message, _, answer = text.partition(ANSWER)
    turns = [{"role": "user", "content": message}]
    if answer:
        turns += [
            {"role": "assistant", "content": answer},
            {"role": "user", "content": _CONTINUE},
        ]
    return json.dumps(turns)


def solve_all(
    engine: ChatModel,
    questions: Sequence[str],
    *,
    limits: Limits,
    decoding: Decoding,
    concurrency: int,
    seed: int,
) -> list[Rollout]:
    """Answer ``questions`` at once; the answer of a rollout: `answer_of`.

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

    return draw_rollouts(
        engine,
        roots,
        lambda draws: Runtime(
            grammar=TagGrammar(shares_prefix=not is_chat),
            draws=draws,
            wire=_wire(engine.chat_format),
            decoding=decoding,
            slots=asyncio.Semaphore(concurrency),
            seed=seed,
            tokens=_tokens(engine),
            window=window,
            limits=limits,
        ),
        lockstep=False,
    )


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
            window = room + len(tokens.encode(wire(text)))
    return window


def answer_of(rollout: Rollout) -> str:
    """The parent's text behind the question; empty if it failed."""
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
    """Tokens of prompts on the wire; None if they are unknown here."""
    if isinstance(engine, EmbeddedEngine):
        return TextTokens.of(engine.tokenizer)
    encode = engine.encode if isinstance(engine, OpenAIModel) else None
    if encode is None or isinstance(engine.chat_format, ServerChat):
        return None
    return TextTokens(encode=encode)


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
