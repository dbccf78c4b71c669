"""`reasonloop pacore consensus`: one answer per question of a file with several.

A line is either one text (``problem_id``, ``text``; optionally ``kind``, ``logprob`` with
``completion_tokens``, and a column of scores), or all rounds of a question as `pacore batch` writes
them (``request_id``, ``round_responses``).
"""

import math
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError

from pipeline_lib.errors import BadInputError, suggestion
from pipeline_lib.kinds.kind import Kind
from pipeline_lib.kinds.line_fields import DistinctIds, Name, line_error
from pipeline_lib.kinds.table import KINDS
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Row
from pipeline_lib.store.files import check_output, numbered_json_lines, write_json_lines
from pipeline_lib.systems.pacore.consensus import (
    NEEDS_SCORES,
    Method,
    decide,
    probability_per_token,
)
from pipeline_lib.verify.answer_groups import AnswerBook
from pipeline_lib.verify.dispatch import open_verifier

_MOST_WEIGHT = 1e300
"""The sum of the weights of a question must be finite, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsensusRule:
    """Method of a consensus, and the columns it reads."""

    method: Method
    kind: str
    """Kind of answer of lines that name none."""
    score: str | None
    """Column of scores; None: probability per token."""
    round_number: int
    """Round of the lines of `pacore batch`, from 1."""
    borda_power: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsensusSummary:
    """Counts of a written file."""

    num_questions: int
    num_texts: int
    num_tied: int
    num_unanswered: int
    """Questions of which no text has an answer."""


@dataclass(slots=True, kw_only=True)
class _Ballot:
    """The texts of one question."""

    kind: Kind[Any]
    is_round: bool
    """One line of `pacore batch`, which has all texts."""
    texts: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


class _Text(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    id: Name | None = None
    problem_id: Name
    text: StrictStr | None
    kind: StrictStr | None = None
    logprob: Annotated[float, Field(allow_inf_nan=False, le=0)] | None = None
    completion_tokens: Annotated[int, Field(ge=0)] | None = None


class _Response(BaseModel):
    content: StrictStr | None


class _Rounds(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    request_id: Name
    round_responses: tuple[tuple[_Response, ...], ...] | None = None
    """None: the question has no answer."""


def consensus_of_file(
    source: pathlib.Path, output: pathlib.Path, rule: ConsensusRule, verify: VerifyParams
) -> ConsensusSummary:
    """Write one line per question, in the order of the first line of each.

    Failed requests, of which the text is null, do not count; a question with no other text gets no line.

    Raises:
        BadInputError: a line cannot be used, or lacks the score that the method needs; or the method reads
            no scores, and a column of them is given.
    """
    if rule.score is not None and rule.method not in NEEDS_SCORES:
        raise BadInputError(
            f"--score {rule.score}: method {rule.method} reads no scores; give --method weighted, borda or best"
        )
    check_output(output, source=source)
    ballots = _read(source, rule)
    rows: list[Row] = []
    num_tied = num_voteless = 0
    with open_verifier(verify) as verifier:
        for name, ballot in ballots.items():
            if not ballot.texts:
                continue
            book = AnswerBook(kind=ballot.kind, verifier=verifier)
            answers = [book.number(text) for text in ballot.texts]
            scores = ballot.scores if rule.method in NEEDS_SCORES else None
            elected = decide(answers, scores, rule.method, borda_power=rule.borda_power)
            num_tied += elected.tied
            num_voteless += elected.votes == 0
            rows.append(
                {
                    "problem_id": name,
                    "method": rule.method.value,
                    "text": ballot.texts[elected.place],
                    "votes": elected.votes,
                    "texts": len(ballot.texts),
                    "answers": len({answer for answer in answers if answer is not None}),
                    "tied": elected.tied,
                }
            )
    write_json_lines(output, rows)
    return ConsensusSummary(
        num_questions=len(ballots),
        num_texts=sum(len(ballot.texts) for ballot in ballots.values()),
        num_tied=num_tied,
        num_unanswered=num_voteless + len(ballots) - len(rows),
    )


def _read(source: pathlib.Path, rule: ConsensusRule) -> Mapping[str, _Ballot]:
    ballots: dict[str, _Ballot] = {}
    ids = DistinctIds()
    for number, row in numbered_json_lines(source):
        where = f"{source}:{number}"
        try:
            if "request_id" in row:
                _add_rounds(ballots, _Rounds.model_validate(row), rule, where)
            else:
                line = _Text.model_validate(row)
                if line.id is not None:
                    ids.add(line.id, path=source, number=number)
                _add_text(ballots, line, rule, where)
        except ValidationError as error:
            raise line_error(error, where=where) from None
    if not ballots:
        raise BadInputError(f'{source}: no texts; give lines {{"problem_id", "text"}}')
    return ballots


def _add_rounds(
    ballots: dict[str, _Ballot], line: _Rounds, rule: ConsensusRule, where: str
) -> None:
    if rule.method in NEEDS_SCORES:
        raise BadInputError(f"{where}: method {rule.method}: rounds hold no scores; use majority")
    if line.request_id in ballots:
        raise BadInputError(
            f"{where}: request_id: {line.request_id!r} is given twice; rounds are one line, and no texts beside it"
        )
    kind = _kind(rule.kind, where)
    ballot = ballots[line.request_id] = _Ballot(kind=kind, is_round=True)
    if line.round_responses is None:
        return
    if rule.round_number > len(line.round_responses):
        raise BadInputError(
            f"{where}: round {rule.round_number}: it has {len(line.round_responses)} rounds"
        )
    drawn = line.round_responses[rule.round_number - 1]
    ballot.texts += [one.content for one in drawn if one.content is not None]


def _add_text(ballots: dict[str, _Ballot], line: _Text, rule: ConsensusRule, where: str) -> None:
    kind = _kind(line.kind or rule.kind, where)
    ballot = ballots.setdefault(line.problem_id, _Ballot(kind=kind, is_round=False))
    if ballot.is_round:
        raise BadInputError(
            f"{where}: problem_id: {line.problem_id!r} has rounds in an earlier line; leave out one of both"
        )
    if ballot.kind is not kind:
        raise BadInputError(f"{where}: kind={kind.name}: an earlier text has {ballot.kind.name}")
    if line.text is None:  # a failed request is no answer
        return
    ballot.texts.append(line.text)
    if rule.method in NEEDS_SCORES:
        ballot.scores.append(_score(line, rule, where))


def _kind(name: str, where: str) -> Kind[Any]:
    kind = KINDS.get(name)
    if kind is None or not kind.votable:
        known = [one.name for one in KINDS.values() if one.votable]
        raise BadInputError(
            f"{where}: kind={name!r}; expected one of {', '.join(known)}{suggestion(name, known)}"
        )
    return kind


def _score(line: _Text, rule: ConsensusRule, where: str) -> float:
    if rule.score is None:
        if line.logprob is None or line.completion_tokens is None:
            missing = "logprob" if line.logprob is None else "completion_tokens"
            raise BadInputError(
                f"{where}: {missing}: method {rule.method} needs it, or --score with a column of scores"
            )
        return probability_per_token(line.logprob, line.completion_tokens)
    value = line.model_dump().get(rule.score)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInputError(f"{where}: {rule.score}: expected a number, got {value!r}")
    score = _finite(value)
    if score is None:
        raise BadInputError(f"{where}: {rule.score}: expected a finite number")
    if rule.method is Method.WEIGHTED and not 0 <= score <= _MOST_WEIGHT:
        raise BadInputError(
            f"{where}: {rule.score}={score:g}: a weight must not be negative, or above {_MOST_WEIGHT:g}"
        )
    return score


def _finite(value: float) -> float | None:
    """None for NaN, an infinity, or an integer that no float can hold."""
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
