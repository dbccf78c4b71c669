"""A file of questions solved to a file of answers, in order; a killed command continues."""

import pathlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import ChatModel
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import check_output, digest_json, write_json_lines
from pipeline_lib.store.journal import open_journal
from pipeline_lib.systems.pacore.drive import solve_all
from pipeline_lib.systems.pacore.plan import make_plan
from pipeline_lib.systems.pacore.questions import QuestionLine, read_questions
from pipeline_lib.systems.pacore.settings import check_lengths, identity_of, open_setting
from pipeline_lib.systems.pacore.solution import Solution
from pipeline_lib.systems.pacore.solution_row import solution_row, usage_counts
from pipeline_lib.terminal_text import one_line

_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedFile:
    """Counts of a written file."""

    num_questions: int
    num_continued: int
    """Answers of an earlier, interrupted command."""
    errors: tuple[str, ...]
    """One per question without an answer."""
    calls: int
    """With those of questions without an answer, as the other counts."""
    failed_calls: int
    tokens: int
    """Of prompts and completions."""


def solve_file(
    source: pathlib.Path,
    output: pathlib.Path,
    *,
    opening: AbstractContextManager[ChatModel],
    params: Params,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> SolvedFile:
    """Solve the questions of ``source``; one line each in ``output``, in order.

    Questions whose last call failed get a line with ``error`` and no answer; the same command asks
    these again, and no others.

    Args:
        source: JSON lines ``{"id", "messages"}``, with ``"responses"`` if the first round is given.
        output: File to write.
        opening: Opens the engine, once the questions are read.
        params: Rounds, seed, and the verifier of an early stop.
        on_progress: Called with the number of answers so far and of questions.

    Raises:
        BadInputError: unusable source, output or model, or an unfinished output of other work.
        EngineDownError: the server does not answer; finished answers are kept.
    """
    lines = read_questions(source)
    check_output(output, source=source)
    _check_responses(lines, source, params)
    failed: dict[str, Solution] = {}
    with opening as engine:
        journal = open_journal(
            output.with_name(f"{output.name}.partial"), key=_key(lines, engine, params)
        )
        num_continued = len(journal.pieces)
        given = {
            line.question.id: {"request_id": line.request_id, **line.further} for line in lines
        }

        def keep(solution: Solution) -> None:
            name = solution.question.id
            if solution.answers[0].error:
                failed[name] = solution
            else:
                journal.add(name, solution_row(solution) | given[name])
            on_progress(len(journal.pieces) + len(failed), len(lines))

        questions = [line.question for line in lines]
        finished = frozenset(journal.pieces)
        on_progress(num_continued, len(lines))
        with open_setting(engine, params.pacore, params.verify, seed=params.seed) as setting:
            check_lengths((one for one in questions if one.id not in finished), setting)
            solve_all(
                engine,
                questions,
                setting,
                together=params.pacore.problems_together,
                on_solved=keep,
                finished=finished,
            )
    errors = {name: str(solution.answers[0].error) for name, solution in failed.items()}
    rows = [
        journal.pieces.get(name) or given[name] | {"error": errors[name]}
        for line in lines
        for name in [line.question.id]
    ]
    write_json_lines(output, rows)
    if not failed:
        journal.remove()
    usages = [row["usage"] for row in journal.pieces.values()]
    usages += [usage_counts(solution.cost) for solution in failed.values()]
    return SolvedFile(
        num_questions=len(lines),
        num_continued=num_continued,
        errors=tuple(errors.values()),
        calls=sum(usage["calls"] for usage in usages),
        failed_calls=sum(usage["failed_calls"] for usage in usages),
        tokens=sum(usage["total_tokens"] for usage in usages),
    )


def _check_responses(lines: list[QuestionLine], source: pathlib.Path, params: Params) -> None:
    """Refuse responses that no round would read."""
    if len(make_plan(params.pacore)) > 1:
        return
    for line in lines:
        if line.question.responses:
            shown = one_line(line.question.id, most=_SHOWN_CHARACTERS)
            raise BadInputError(
                f"{source}: question {shown}: responses: pacore.widths=[] is one plain call, which reads none; "
                "give --widths N, or leave them out"
            )


def _key(lines: list[QuestionLine], engine: ChatModel, params: Params) -> str:
    asked = [
        [line.question.id, _plain(line), list(line.question.responses), line.further]
        for line in lines
    ]
    return digest_json([identity_of(engine, params), asked])


def _plain(line: QuestionLine) -> list[list[str]]:
    return [[str(turn.role), turn.content] for turn in line.question.conversation]
