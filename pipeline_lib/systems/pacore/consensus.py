"""`reasonloop pacore consensus`: one answer per question of a file with several, by votes or by the best score.

A line is either one text (``problem_id``, ``text``; optionally ``kind``, ``logprob`` with
``completion_tokens``, and a column of scores), or all rounds of a question as `pacore batch` writes
them (``request_id``, ``round_responses``). Gold answers are read for the weights of models alone.
"""

import math
import pathlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictStr

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.errors import BadInputError, errors_at, suggestion
from pipeline_lib.kinds.kind import DistinctIds, Kind, Name
from pipeline_lib.kinds.table import KINDS
from pipeline_lib.params.evaluate import Strategy, StrategyParams
from pipeline_lib.params.pacore import Final, PacoreParams
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Row
from pipeline_lib.store.files import check_output, numbered_json_lines, write_json_lines
from pipeline_lib.study.selection import CandidatePath, make_selectors
from pipeline_lib.terminal_text import one_line
from pipeline_lib.verify.dispatch import AnswerBook, open_verifier
from pipeline_lib.verify.lines import judge_lines, parse_line

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


class _Scored(BaseModel, extra="allow", frozen=True):
    logprob: Annotated[float, Field(allow_inf_nan=False, le=0)] | None = None
    completion_tokens: Annotated[int, Field(ge=0)] | None = None
    model: StrictStr | None = None


class _Text(_Scored, frozen=True):
    id: Name | None = None
    problem_id: Name
    text: StrictStr | None
    kind: StrictStr | None = None


class _Response(_Scored, frozen=True):
    content: StrictStr | None


class _Rounds(BaseModel, extra="allow", frozen=True):
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
    is a column of scores; None: ``pacore.weights`` of the models, else probability per token. ``round_number``, from
    1, is of the lines of `pacore batch`.

    Raises:
        BadInputError: a line cannot be used, or lacks the score that the method needs; or the method reads
            no scores, and a column of them is given.
    """
    if score is not None and method is Method.MAJORITY:
        raise BadInputError(
            f"--score {score}: method {method} reads no scores; give --method weighted, borda or best"
        )
    check_output(output, source=source)
    score_of = None
    if method is not Method.MAJORITY:
        score_of = partial(_score, method=method, column=score, weights=params.pacore.weights)
    questions = _read(source, params.pacore.kind, score_of, round_number=round_number)
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


def elect_path(
    drawn: Sequence[Completion],
    number_of: Callable[[str], int | None],
    params: PacoreParams,
) -> int:
    """The place of the path that wins the vote of ``params``; the first one if all calls have failed.

    It is the choice of `consensus_of_file` with the method of this name. ``number_of`` numbers the answers.

    Raises:
        BadInputError: a weighted vote lacks the weight of a model, or a log-probability.
    """
    places = [place for place, one in enumerate(drawn) if one.error is None]
    if not places:
        return 0
    answers = [number_of(drawn[place].text) for place in places]
    scores, method = [], Method.MAJORITY
    if params.final is Final.WEIGHTED:
        method = Method.WEIGHTED
        scores = [vote_weight(drawn[place], params.weights) for place in places]
    return places[elect(answers, scores, method, StrategyParams())[0]]


def vote_weight(path: Completion | _Scored, weights: Mapping[str, float]) -> float:
    """The weight of the path's model, or without ``weights`` its probability per token.

    BadInputError: a weight or a log-probability is missing.
    """
    if weights:
        if path.model is None or path.model not in weights:
            raise BadInputError(
                f"pacore.weights: no weight for model {path.model}; they are for the models of --with, by name"
            )
        return weights[path.model]
    if path.logprob is None or path.completion_tokens is None:
        missing = "logprob" if path.logprob is None else "completion_tokens"
        raise BadInputError(
            f"{missing}: a score by probability needs it; give --score with a column, or pacore.weights"
        )
    # The geometric mean of the tokens' probabilities.
    return math.exp(path.logprob / max(path.completion_tokens, 1))


def weights_by_accuracy(
    source: pathlib.Path, params: Params, *, round_number: int
) -> dict[str, float]:
    """Share of right responses of each model, for ``pacore.weights``.

    Args:
        source: output of `pacore batch` on questions with the fields of a gold answer, as `reasonloop verify` reads.
        params: of the verifier.
        round_number: from 1.

    Raises:
        BadInputError: a line cannot be used, or has no gold answer.
    """
    scores: dict[str, list[float]] = defaultdict(list)
    with open_verifier(params.verify) as verifier:
        for number, row in numbered_json_lines(source):
            where, gold = f"{source}:{number}", {"kind": params.pacore.kind, **row}
            with errors_at(where):
                drawn = _responses(_Rounds.model_validate(row), round_number)
            lines = [
                parse_line(gold | {"text": one.content, "model": one.model}, where=where)
                for one in drawn
            ]
            for one, verdict in zip(drawn, judge_lines(lines, verifier), strict=True):
                if one.model is not None and verdict.lenient is not None:
                    scores[one.model].append(verdict.lenient)
    if not scores:
        raise BadInputError(
            f"{source}: no response names its model; give a batch of several (--with)"
        )
    return {name: round(sum(each) / len(each), 4) for name, each in scores.items()}


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


_ScoreOf = Callable[[_Scored], float]


def _read(
    source: pathlib.Path, kind: str, score_of: _ScoreOf | None, *, round_number: int
) -> dict[str, _Question]:
    questions: dict[str, _Question] = {}
    ids = DistinctIds()
    for number, row in numbered_json_lines(source):
        with errors_at(f"{source}:{number}"):
            line = (_Rounds if "request_id" in row else _Text).model_validate(row)
            if isinstance(line, _Text):
                _add_text(questions, line, kind, score_of)
            else:
                _add_rounds(questions, line, kind, score_of, round_number)
        if isinstance(line, _Text) and line.id is not None:
            ids.add(line.id, path=source, number=number)
    if not questions:
        raise BadInputError(f'{source}: no texts; give lines {{"problem_id", "text"}}')
    return questions


def _add_rounds(
    questions: dict[str, _Question],
    line: _Rounds,
    kind: str,
    score_of: _ScoreOf | None,
    round_number: int,
) -> None:
    if line.request_id in questions:
        raise BadInputError(
            f"request_id: {line.request_id!r} is given twice; rounds are one line, and no texts beside it"
        )
    drawn = _responses(line, round_number)
    questions[line.request_id] = _Question(
        kind=_kind(kind),
        is_round=True,
        texts=[one.content for one in drawn if one.content is not None],
        scores=[score_of(one) for one in drawn] if score_of else [],
    )


def _responses(line: _Rounds, round_number: int) -> list[_Response]:
    """The texts of a round that did not fail."""
    rounds = line.round_responses
    if rounds is None:
        return []
    if round_number > len(rounds):
        raise BadInputError(f"round {round_number}: it has {len(rounds)} rounds")
    return [one for one in rounds[round_number - 1] if one.content is not None]


def _add_text(
    questions: dict[str, _Question], line: _Text, kind: str, score_of: _ScoreOf | None
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
        if score_of is not None:
            found.scores.append(score_of(line))


def _kind(name: str) -> Kind[Any]:
    known = {one.name: one for one in KINDS.values() if one.votable}
    if name not in known:
        raise BadInputError(
            f"kind={name!r}; expected one of {', '.join(known)}{suggestion(name, known)}"
        )
    return known[name]


def _score(
    line: _Scored, *, method: Method, column: str | None, weights: Mapping[str, float]
) -> float:
    if column is None:
        return vote_weight(line, weights)
    value: Any = line.model_dump().get(column)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    least = 0 if method is Method.WEIGHTED else -_MOST
    if not is_number or not least <= value <= _MOST:
        shown = one_line(repr(value), most=_SHOWN_CHARACTERS)
        raise BadInputError(
            f"{column}={shown}: method {method} needs a number from {least:g} to {_MOST:g}"
        )
    return float(value)
