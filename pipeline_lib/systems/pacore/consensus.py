"""`reasonloop pacore consensus`: one answer per question of a file with several, by votes or by the best score.

A line is either one text (``problem_id``, ``text``; optionally ``kind``, ``logprob`` with
``completion_tokens``, and a column of scores), or all rounds of a question as `pacore batch` writes
them (``request_id``, ``round_responses``). No gold and no verdict is read.
"""

import math
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictStr, ValidationError

from pipeline_lib.errors import BadInputError, suggestion
from pipeline_lib.kinds.kind import DistinctIds, Kind, Name, line_error
from pipeline_lib.kinds.table import KINDS
from pipeline_lib.params.evaluate import Strategy, StrategyParams
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Row
from pipeline_lib.store.files import check_output, numbered_json_lines, write_json_lines
from pipeline_lib.study.selection import CandidatePath, make_selectors
from pipeline_lib.terminal_text import one_line
from pipeline_lib.verify.dispatch import AnswerBook, open_verifier

_MOST = 1e300
"""The sum of the weights of a question must be finite, too."""
_SHOWN_CHARACTERS = 60


class Method(StrEnum):
    """Rule of a consensus."""

    MAJORITY = "majority"
    """One vote per answer."""
    WEIGHTED = "weighted"
    """Votes weighted by score."""
    BORDA = "borda"
    """Votes weighted by the rank of the score."""
    BEST = "best"
    """The answer with the best score."""


_RULES = {
    Method.MAJORITY: Strategy.MAJORITY,
    Method.WEIGHTED: Strategy.CERTAINTY_VOTE,
    Method.BORDA: Strategy.BORDA_VOTE,
    Method.BEST: Strategy.SELF_CERTAINTY,
}


@dataclass(slots=True, kw_only=True)
class _Question:
    kind: Kind[Any]
    is_round: bool
    """One line of `pacore batch`, which has all texts."""
    texts: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    """Empty for a majority."""


class _Text(BaseModel, extra="allow", frozen=True):
    id: Name | None = None
    problem_id: Name
    text: StrictStr | None
    kind: StrictStr | None = None
    logprob: Annotated[float, Field(allow_inf_nan=False, le=0)] | None = None
    completion_tokens: Annotated[int, Field(ge=0)] | None = None


class _Response(BaseModel):
    content: StrictStr | None


class _Rounds(BaseModel, extra="ignore", frozen=True):
    request_id: Name
    round_responses: tuple[tuple[_Response, ...], ...] | None = None
    """None: the question has no answer."""


def consensus_of_file(
    source: pathlib.Path,
    output: pathlib.Path,
    params: Params,
    *,
    method: Method,
    score: str | None,
    round_number: int,
) -> dict[str, int]:
    """Write one line per question, in the order of the first line of each; return counts.

    Failed requests, of which the text is null, do not count; a question with no other text gets no line. ``score``
    is a column of scores; None: probability per token. ``round_number``, from 1, is of the lines of `pacore batch`.

    Raises:
        BadInputError: a line cannot be used, or lacks the score that the method needs; or the method reads
            no scores, and a column of them is given.
    """
    if score is not None and method is Method.MAJORITY:
        raise BadInputError(
            f"--score {score}: method {method} reads no scores; give --method weighted, borda or best"
        )
    check_output(output, source=source)
    questions = _read(source, params.pacore.kind, method, score=score, round_number=round_number)
    rows: list[Row] = []
    with open_verifier(params.verify) as verifier:
        for name, one in questions.items():
            if one.texts:
                book = AnswerBook(kind=one.kind, verifier=verifier)
                answers = [book.number(text) for text in one.texts]
                place, votes, tied = elect(answers, one.scores, method, params.test_time)
                rows.append(
                    {
                        "problem_id": name,
                        "method": method.value,
                        "text": one.texts[place],
                        "votes": votes,
                        "texts": len(one.texts),
                        "answers": len({answer for answer in answers if answer is not None}),
                        "tied": tied,
                    }
                )
    write_json_lines(output, rows)
    return {
        "questions": len(questions),
        "texts": sum(len(one.texts) for one in questions.values()),
        "tied": sum(row["tied"] for row in rows),
        "without an answer": len(questions) - sum(row["votes"] > 0 for row in rows),
    }


def elect(
    answers: Sequence[int | None],
    scores: Sequence[float],
    method: Method,
    params: StrategyParams,
) -> tuple[int, int, bool]:
    """The place of the first text with the chosen answer, the texts that share it, and if another was as good.

    Answers are numbers; a text without an answer, None, has no vote, and no other shares it. A majority reads no
    scores.
    """
    # The certainty of a candidate is its score here.
    candidates = [
        CandidatePath(answer=answer, tokens=0, logprob=None, self_certainty=score)
        for answer, score in zip(answers, scores or [0.0] * len(answers), strict=True)
    ]
    chances = make_selectors(params)[_RULES[method]].choose(candidates)
    leaders = [place for place, chance in enumerate(chances) if chance > 0]
    chosen = answers[leaders[0]]
    votes = answers.count(chosen) if chosen is not None else 0
    return leaders[0], votes, len({answers[place] for place in leaders}) > 1


def _read(
    source: pathlib.Path, kind: str, method: Method, *, score: str | None, round_number: int
) -> dict[str, _Question]:
    questions: dict[str, _Question] = {}
    ids = DistinctIds()
    for number, row in numbered_json_lines(source):
        where = f"{source}:{number}"
        try:
            line = (_Rounds if "request_id" in row else _Text).model_validate(row)
        except ValidationError as error:
            raise line_error(error, where=where) from None
        if isinstance(line, _Text) and line.id is not None:
            ids.add(line.id, path=source, number=number)
        try:
            if isinstance(line, _Text):
                _add_text(questions, line, kind, method, score)
            else:
                _add_rounds(questions, line, kind, method, round_number)
        except BadInputError as error:
            raise BadInputError(f"{where}: {error}") from None
    if not questions:
        raise BadInputError(f'{source}: no texts; give lines {{"problem_id", "text"}}')
    return questions


def _add_rounds(
    questions: dict[str, _Question], line: _Rounds, kind: str, method: Method, round_number: int
) -> None:
    if method is not Method.MAJORITY:
        raise BadInputError(f"method {method}: rounds hold no scores; use majority")
    if line.request_id in questions:
        raise BadInputError(
            f"request_id: {line.request_id!r} is given twice; rounds are one line, and no texts beside it"
        )
    rounds = line.round_responses
    if rounds is not None and round_number > len(rounds):
        raise BadInputError(f"round {round_number}: it has {len(rounds)} rounds")
    drawn = rounds[round_number - 1] if rounds is not None else ()
    texts = [one.content for one in drawn if one.content is not None]
    questions[line.request_id] = _Question(kind=_kind(kind), is_round=True, texts=texts)


def _add_text(
    questions: dict[str, _Question], line: _Text, kind: str, method: Method, column: str | None
) -> None:
    own = _kind(line.kind or kind)
    found = questions.setdefault(line.problem_id, _Question(kind=own, is_round=False))
    if found.is_round:
        raise BadInputError(
            f"problem_id: {line.problem_id!r} has rounds in an earlier line; leave out one of both"
        )
    if found.kind is not own:
        raise BadInputError(f"kind={own.name}: an earlier text has {found.kind.name}")
    if line.text is not None:  # a failed request is no answer
        found.texts.append(line.text)
        if method is not Method.MAJORITY:
            found.scores.append(_score(line, method, column))


def _kind(name: str) -> Kind[Any]:
    known = {one.name: one for one in KINDS.values() if one.votable}
    if name not in known:
        raise BadInputError(
            f"kind={name!r}; expected one of {', '.join(known)}{suggestion(name, known)}"
        )
    return known[name]


def _score(line: _Text, method: Method, column: str | None) -> float:
    if column is None:
        if line.logprob is None or line.completion_tokens is None:
            missing = "logprob" if line.logprob is None else "completion_tokens"
            raise BadInputError(
                f"{missing}: method {method} needs it, or --score with a column of scores"
            )
        # The geometric mean of the tokens' probabilities.
        return math.exp(line.logprob / max(line.completion_tokens, 1))
    value: Any = line.model_dump().get(column)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    least = 0 if method is Method.WEIGHTED else -_MOST
    if not is_number or not least <= value <= _MOST:
        shown = one_line(repr(value), most=_SHOWN_CHARACTERS)
        raise BadInputError(
            f"{column}={shown}: method {method} needs a number from {least:g} to {_MOST:g}"
        )
    return float(value)
