"""Caches of responses, from which a synthesizer is trained, in two formats of JSON lines.

Published: one line a question, ``{"conversation", "responses", "ground_truth"}``, the format of PaCoRe's data
set. Or the lines of `reasonloop sample`, one per path, with the gold of a kind.
"""

import pathlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field

from pipeline_lib.engines.chat_model import Conversation, Message, Role
from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.kinds.kind import DistinctIds, Name, Text
from pipeline_lib.kinds.table import find_kind, kind_of
from pipeline_lib.problems.lines import Turn, Turns
from pipeline_lib.records import Problem, Row
from pipeline_lib.sampling.prompts import messages_in_words
from pipeline_lib.store.files import numbered_json_lines
from pipeline_lib.verify.lines import Line, read_lines

Ask = Callable[[Problem], Conversation]
"""From a problem to the messages that ask it."""
_SOURCE = "cache"
Texts = Annotated[tuple[Annotated[Text, Field(strict=True)], ...], Field(min_length=1)]
"""Strings that can be encoded; a number is none."""


def messages_of(turns: tuple[Turn, ...]) -> list[Message]:
    """The conversation of a line."""
    return [Message(role=Role(turn.role), content=turn.content) for turn in turns]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedQuestion:
    """A question with independent responses to it."""

    problem: Problem
    conversation: Conversation
    responses: Sequence[str]
    right: Sequence[bool | None] = ()
    """Of each response, by the strict score; None: the verifier failed, so it is neither. Empty before a judgement."""

    @property
    def mean_right(self) -> float | None:
        """Share of the scored responses that is right; None if none was scored."""
        scored = [one for one in self.right if one is not None]
        return sum(scored) / len(scored) if scored else None


class _Line(BaseModel, extra="ignore", frozen=True):
    id: Name | None = None
    conversation: Turns
    responses: Texts
    ground_truth: Name


def read_cache(
    path: pathlib.Path, *, kind: str, ask: Ask = messages_in_words
) -> list[CachedQuestion]:
    """The questions of a cache, in order.

    ``kind`` is of lines that name none; ``ask`` makes the conversation of paths, whose lines hold none.

    Raises:
        BadInputError: no such file, no line, or a line that cannot be used.
    """
    first = next(numbered_json_lines(path), None)
    if first is None:
        raise BadInputError(
            f'{path}: no questions; give lines {{"conversation", "responses", "ground_truth"}} or paths'
        )
    return _read_published(path, kind) if "conversation" in first[1] else _read_paths(path, ask)


def _read_published(path: pathlib.Path, kind: str) -> list[CachedQuestion]:
    found: list[CachedQuestion] = []
    ids = DistinctIds()
    for number, row in numbered_json_lines(path):
        where = f"{path}:{number}"
        own = find_kind(row.get("kind") or kind, where=where)
        with errors_at(where):
            line = _Line.model_validate(row)
            gold = own.read_line({"gold": line.ground_truth})
        name = line.id or f"line-{number}"
        ids.add(name, path=path, number=number)
        turns = messages_of(line.conversation)
        problem = Problem(id=name, question=turns[-1].content, gold=gold, source=_SOURCE)
        found.append(CachedQuestion(problem=problem, conversation=turns, responses=line.responses))
    return found


def _read_paths(path: pathlib.Path, ask: Ask) -> list[CachedQuestion]:
    by_problem: dict[str, tuple[Line, list[str]]] = {}
    for line in read_lines(path):
        first, texts = by_problem.setdefault(line.problem_id, (line, []))
        if line.problem() != first.problem():
            raise BadInputError(
                f"{path}: problem {line.problem_id} has two questions or golds; give each its own problem_id"
            )
        if line.text:
            texts.append(line.text)
    return [
        cached_paths(first.problem(), texts, ask) for first, texts in by_problem.values() if texts
    ]


def cached_paths(
    problem: Problem, responses: Sequence[str], ask: Ask, *, right: Sequence[bool | None] = ()
) -> CachedQuestion:
    """A problem as ``ask`` gives it to the model."""
    return CachedQuestion(
        problem=problem, conversation=ask(problem), responses=responses, right=right
    )


def published_rows(questions: Iterable[CachedQuestion]) -> list[Row]:
    """The questions in the published format, with their id and kind; BadInputError if a gold is no single text."""
    rows: list[Row] = []
    for question in questions:
        problem, kind = question.problem, kind_of(question.problem.gold)
        fields = kind.write_line(problem.gold)
        if set(fields) != {"gold"} or not isinstance(fields["gold"], str):
            raise BadInputError(
                f"problem {problem.id}: golds of kind {kind.name} have no place in the published format"
            )
        rows.append(
            {
                "id": problem.id,
                "kind": kind.name,
                "conversation": [turn.fields() for turn in question.conversation],
                "responses": list(question.responses),
                "ground_truth": fields["gold"],
            }
        )
    return rows
