"""`reasonloop pacore batch`: a file of questions solved to a file of answers, in order; a killed command continues.

Input lines are ``{"id", "messages"}`` and optionally ``"responses"``, texts of the first round from elsewhere.
All are checked before the first call.
"""

import pathlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pydantic import BaseModel

from pipeline_lib.engines.chat_model import ChatModel
from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.kinds.kind import DistinctIds, Name
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.lines import Turns
from pipeline_lib.records import Row
from pipeline_lib.store.files import (
    check_output,
    digest_json,
    numbered_json_lines,
    write_json_lines,
)
from pipeline_lib.store.journal import open_journal
from pipeline_lib.systems.pacore.consensus import elect_path
from pipeline_lib.systems.pacore.drive import solve_all
from pipeline_lib.systems.pacore.message_cache import Texts, messages_of
from pipeline_lib.systems.pacore.settings import check_lengths, identity_of, open_setting
from pipeline_lib.systems.pacore.solution import Question, Solution, solution_row, usage_counts
from pipeline_lib.terminal_text import one_line

_SHOWN_CHARACTERS = 60
_OUTPUT_FIELDS = frozenset(
    {
        *("request_id", "status", "error", "final_response", "final_reasoning_content"),
        *("round_responses", "rounds", "usage", "critical_tokens"),
    }
)
"""Fields of an output line; no further field of an input line may have one of these names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedFile:
    """Counts of a written file."""

    num_questions: int
    num_continued: int
    """Answers of an earlier, interrupted command."""
    errors: tuple[str, ...]
    """One per question without an answer."""
    calls: int
    """Questions without an answer included, as in the other counts."""
    failed_calls: int
    tokens: int
    """Of prompts and completions."""


class _Line(BaseModel, extra="allow", frozen=True):
    id: Name
    messages: Turns
    responses: Texts | None = None


def read_questions(path: pathlib.Path) -> list[tuple[Question, Row]]:
    """The questions of a file, in order, each with its id as given and the further fields of its line.

    Raises:
        BadInputError: no such file, no line, an id twice, or a line that cannot be used; with its number.
    """
    ids = DistinctIds()
    found: list[tuple[Question, Row]] = []
    for number, row in numbered_json_lines(path):
        with errors_at(f"{path}:{number}"):
            line = _Line.model_validate(row)
            further = line.model_extra or {}
            if taken := sorted(_OUTPUT_FIELDS & further.keys()):
                raise BadInputError(f"{taken[0]}: the output has a field of this name; rename it")
        ids.add(line.id, path=path, number=number)
        turns, responses = messages_of(line.messages), line.responses or ()
        question = Question(id=line.id, conversation=turns, responses=responses)
        found.append((question, {"request_id": row["id"], **further}))
    if not found:
        raise BadInputError(f'{path}: no questions; give lines {{"id", "messages"}}')
    return found


def check_batch(
    source: pathlib.Path, output: pathlib.Path, params: Params
) -> list[tuple[Question, Row]]:
    """As `read_questions`. BadInputError: also an unusable output, or responses that no round of ``params`` reads."""
    lines = read_questions(source)
    check_output(output, source=source)
    _check_responses([question for question, _ in lines], source, params)
    return lines


def solve_file(
    source: pathlib.Path,
    output: pathlib.Path,
    *,
    opening: AbstractContextManager[ChatModel],
    params: Params,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
    on_start: Callable[[str], None] = lambda _id: None,
) -> SolvedFile:
    """Solve the questions of ``source``; one line each in ``output``, in order.

    Questions whose last call failed get a line with ``error`` and no answer; the same command asks these again.
    ``opening`` opens the engine, once the questions are read; ``on_progress`` is called with the number of answers so
    far and of questions, ``on_start`` with the id of each question that is begun.

    Raises:
        BadInputError: unusable source, output or model, or an unfinished output of other work.
        EngineDownError: the server does not answer; finished answers are kept.
    """
    lines = check_batch(source, output, params)
    questions = [question for question, _ in lines]
    given = {question.id: fields for question, fields in lines}
    failed: dict[str, Solution] = {}
    with opening as engine:
        key = _key(lines, engine, params)
        journal = open_journal(output.with_name(f"{output.name}.partial"), key=key)
        finished = frozenset(journal.pieces)

        def keep(solution: Solution) -> None:
            name = solution.question.id
            if solution.answers[0].error:
                failed[name] = solution
            else:
                journal.add(name, solution_row(solution) | given[name])
            on_progress(len(journal.pieces) + len(failed), len(lines))

        on_progress(len(finished), len(lines))
        with open_setting(
            engine, params.pacore, params.verify, seed=params.seed, elect=elect_path
        ) as setting:
            check_lengths((one for one in questions if one.id not in finished), setting)
            solve_all(
                engine,
                questions,
                setting,
                together=params.pacore.problems_together,
                on_solved=keep,
                on_start=on_start,
                finished=finished,
            )
    errors = {name: str(solution.answers[0].error) for name, solution in failed.items()}
    rows = [
        journal.pieces.get(name) or fields | {"error": errors[name]}
        for name, fields in given.items()
    ]
    write_json_lines(output, rows)
    if not failed:
        journal.remove()
    usages = [row["usage"] for row in journal.pieces.values()]
    usages += [usage_counts(solution.cost) for solution in failed.values()]
    return SolvedFile(
        num_questions=len(lines),
        num_continued=len(finished),
        errors=tuple(errors.values()),
        calls=sum(usage["calls"] for usage in usages),
        failed_calls=sum(usage["failed_calls"] for usage in usages),
        tokens=sum(usage["total_tokens"] for usage in usages),
    )


def _check_responses(questions: Sequence[Question], source: pathlib.Path, params: Params) -> None:
    """Refuse responses that no round would read."""
    for question in questions if not (params.pacore.widths or params.pacore.rsa) else ():
        if question.responses:
            raise BadInputError(
                f"{source}: question {one_line(question.id, most=_SHOWN_CHARACTERS)}: responses: pacore.widths=[] is "
                "one plain call, which reads none; give --set pacore.widths=[N], or leave them out"
            )


def _key(lines: Sequence[tuple[Question, Row]], engine: ChatModel, params: Params) -> str:
    asked = [
        [
            question.id,
            [[str(turn.role), turn.content] for turn in question.conversation],
            list(question.responses),
            {name: value for name, value in fields.items() if name != "request_id"},
        ]
        for question, fields in lines
    ]
    return digest_json([identity_of(engine, params), asked])
