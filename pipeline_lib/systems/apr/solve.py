"""Questions, answered by a language model that may spawn threads, within limits."""

import asyncio
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from pydantic import BaseModel, Field, StrictStr

from pipeline_lib.engines.chat_model import ChatModel, Decoding
from pipeline_lib.engines.client.client import OpenAIModel, ServerChat
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.kinds.kind import DistinctIds, Name
from pipeline_lib.records import Row
from pipeline_lib.store.files import digest_json, numbered_json_lines, write_json_lines
from pipeline_lib.store.journal import open_journal
from pipeline_lib.store.shards import split
from pipeline_lib.study.pages.wording import words
from pipeline_lib.systems.apr.runtime import Runtime
from pipeline_lib.systems.apr.scheduler import draw_rollouts
from pipeline_lib.systems.apr.task import counts_of
from pipeline_lib.systems.apr.threads import Limits, Rollout, Root, TextTokens
from pipeline_lib.systems.apr.words.grammars import TagGrammar
from pipeline_lib.systems.apr.words.task import WordsTask, told_prompt
from pipeline_lib.systems.apr.words.texts import ANSWER, wire_of

_TOGETHER = 16
"""Questions of a file that are answered at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solver:
    """A language model that answers questions by threads."""

    engine: ChatModel
    task: WordsTask | None = None
    """The texts that the model was trained on; None: it is told of tags."""
    limits: Limits
    """Of the threads of each question."""
    decoding: Decoding
    """Of each draw."""
    concurrency: int
    """Draws in flight."""
    seed: int

    def solve(self, questions: Sequence[str], ids: Sequence[str] | None = None) -> list[Rollout]:
        """Answer ``questions`` at once; the answer of a rollout: `answer_of`. Seeds follow from ``ids``, or the places.

        Raises:
            BadInputError: a question is empty, or fills the model's context.
            ReasonloopError: the engine is gone.
        """
        if not all(question.strip() for question in questions):
            raise BadInputError("the question is empty")
        engine, task = self.engine, self.task
        is_chat = isinstance(engine.chat_format, ServerChat)
        if task is not None and isinstance(engine, OpenAIModel):
            engine, is_chat = replace(engine, encode=task.tokens.encode, chat_format=None), False
        tokens = _tokens(engine) if task is None else task.tokens
        grammar = TagGrammar(shares_prefix=not is_chat) if task is None else task.grammar
        wire = wire_of(engine.chat_format) if task is None else task.wire
        ask = told_prompt if task is None else task.question_prompt
        named = [("question", place) for place in range(len(questions))]
        roots = [
            Root(problem_id=name, sample=sample, prompt=ask(question))
            for question, (name, sample) in zip(
                questions, named if ids is None else [(one, 0) for one in ids], strict=True
            )
        ]
        window = None if is_chat else _window(engine, [wire(one.prompt) for one in roots], tokens)
        return draw_rollouts(
            engine,
            roots,
            lambda draws: Runtime(
                grammar=grammar,
                draws=draws,
                wire=wire,
                decoding=self.decoding,
                slots=asyncio.Semaphore(self.concurrency),
                seed=self.seed,
                tokens=tokens,
                window=window,
                limits=self.limits,
            ),
            lockstep=False,
            encode=None if task is None else task.tokens.encode,
        )

    def solve_file(
        self,
        questions: Mapping[str, Row],
        output: pathlib.Path,
        on_progress: Callable[[int, int], None],
    ) -> int:
        """Answer the questions of `read_questions` into ``output``, in their order; the number of those that failed.

        Finished ones are kept in a journal beside the file until all are answered, so the same command continues.

        Raises:
            BadInputError: a question fills the model's context, or an unfinished output is of other work.
            ReasonloopError: the engine is gone.
        """
        key = {
            "questions": list(questions.values()),
            "model": self.engine.identity,
            "trained": self.task is not None,
            "limits": asdict(self.limits),
            "decoding": asdict(self.decoding),
            "seed": self.seed,
        }
        journal = open_journal(output.with_name(f"{output.name}.partial"), key=digest_json(key))
        failed: dict[str, Row] = {}
        waiting = [one for one in questions if one not in journal.pieces]
        on_progress(len(journal.pieces), len(questions))
        for ids in split(waiting, _TOGETHER):
            for name, rollout in zip(
                ids, self.solve([questions[one]["question"] for one in ids], ids), strict=True
            ):
                row = questions[name] | answer_row(rollout)
                if rollout.error is None and rollout.child_error is None:
                    journal.add(name, row)
                else:
                    failed[name] = row
            on_progress(len(journal.pieces) + len(failed), len(questions))
        write_json_lines(output, [journal.pieces.get(one) or failed[one] for one in questions])
        if not failed:
            journal.remove()
        return len(failed)


def answer_row(rollout: Rollout) -> Row:
    """The answer of a rollout with its tokens and events, or the reason why it has none."""
    error = rollout.error or rollout.child_error
    return {
        **({"answer": answer_of(rollout)} if error is None else {"error": error}),
        **counts_of(rollout),
    }


class _Asked(BaseModel, extra="allow", frozen=True):
    """A line of a file of questions; further keys go on to the output."""

    id: Name
    question: StrictStr = Field(min_length=1)


def read_questions(path: pathlib.Path) -> dict[str, Row]:
    """The lines of a file of questions by their ids.

    Raises:
        BadInputError: no such file, no line, an id twice, or a line that cannot be used; with its number.
    """
    ids = DistinctIds()
    found: dict[str, Row] = {}
    for number, row in numbered_json_lines(path):
        with errors_at(f"{path}:{number}"):
            line = _Asked.model_validate(row)
        ids.add(line.id, path=path, number=number)
        found[line.id] = line.model_dump()
    if not found:
        raise BadInputError(f'{path}: no questions; give lines {{"id", "question"}}')
    return found


def _window(engine: ChatModel, prompts: Sequence[str], tokens: TextTokens | None) -> int | None:
    """Tokens of the model's context; None if it is unknown.

    Raises:
        BadInputError: a prompt fills it.
    """
    window = None
    for prompt in prompts:
        room = engine.room(prompt)
        if room is not None and room < 1:
            raise BadInputError(
                f"the question leaves no room in the model's context ({room} tokens)"
            )
        if room is not None and tokens is not None:
            window = room + len(tokens.encode(prompt))
    return window


def answer_of(rollout: Rollout) -> str:
    """The parent's text behind the question; empty if it failed."""
    if rollout.error is not None:
        return ""
    last = rollout.last
    _, _, answer = (last.prefix + last.output).partition(ANSWER)
    return answer.strip()


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
