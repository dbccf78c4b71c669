"""A file of questions solved to a file of answers, in order; a killed command continues."""

import pathlib
from collections.abc import Callable
from dataclasses import dataclass

from pipeline_lib.collaborative.drive import solve_all
from pipeline_lib.collaborative.questions import QuestionLine, read_questions
from pipeline_lib.collaborative.rounds import Round, Solution
from pipeline_lib.collaborative.settings import check_lengths, open_setting
from pipeline_lib.collaborative.synthesis import VERSION
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Row
from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.serving.chat_model import ChatModel, Completion
from pipeline_lib.serving.started_engine import started_engine
from pipeline_lib.storage.files import check_output, digest_json, write_json_lines
from pipeline_lib.storage.journal import open_journal

_NOT_IN_RESULTS = {"problems_together", "batch_size"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedFile:
    """Counts of a written file."""

    num_questions: int
    num_continued: int
    """Answers of an earlier, interrupted command."""
    errors: tuple[str, ...]
    """One per question without an answer."""
    calls: int
    failed_calls: int
    tokens: int
    """Of prompts and completions."""
    journal: pathlib.Path
    """Kept while there are questions without an answer."""


def solve_file(
    source: pathlib.Path,
    output: pathlib.Path,
    *,
    model: str,
    params: Params,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> SolvedFile:
    """Solve the questions of ``source``; one line each in ``output``, in order.

    Questions whose last call failed get a line with ``error`` and no answer; the same command asks
    these again, and no others.

    Raises:
        BadInputError: unusable source, output or model, or an unfinished output of other work.
        EngineDownError: the server does not answer; finished answers are kept.
    """
    lines = read_questions(source)
    check_output(output, source=source)
    errors: dict[str, str] = {}
    with started_engine(
        model,
        params.serve,
        log_folder=output.resolve().parent / "logs",
        batch_size=params.pacore.batch_size,
    ) as engine:
        journal = open_journal(
            output.with_name(f"{output.name}.partial"), key=_key(lines, engine, params)
        )
        num_continued = len(journal.pieces)
        given = {
            line.question.id: {"request_id": line.request_id, **line.further} for line in lines
        }

        def keep(solution: Solution) -> None:
            name = solution.question.id
            if error := solution.answers[0].error:
                errors[name] = error
            else:
                journal.add(name, solution_row(solution) | given[name])
            on_progress(len(journal.pieces) + len(errors), len(lines))

        left = [line.question for line in lines if line.question.id not in journal.pieces]
        on_progress(num_continued, len(lines))
        with open_setting(engine, params.pacore, params.verify, seed=params.seed) as setting:
            check_lengths(left, setting)
            solve_all(
                engine,
                left,
                setting,
                together=params.pacore.problems_together,
                on_solved=keep,
            )
    rows = [
        journal.pieces.get(name) or given[name] | {"error": errors[name]}
        for line in lines
        for name in [line.question.id]
    ]
    write_json_lines(output, rows)
    if not errors:
        journal.remove()
    usages = [row["usage"] for row in rows if "usage" in row]
    return SolvedFile(
        num_questions=len(lines),
        num_continued=num_continued,
        errors=tuple(errors.values()),
        calls=sum(usage["calls"] for usage in usages),
        failed_calls=sum(usage["failed_calls"] for usage in usages),
        tokens=sum(usage["total_tokens"] for usage in usages),
        journal=journal.path,
    )


def _key(lines: list[QuestionLine], engine: ChatModel, params: Params) -> str:
    """Digest of everything that an answer depends on."""
    chat_format = engine.chat_format
    return digest_json(
        [
            VERSION,
            engine.identity,
            engine.engine,
            chat_format.digest if chat_format else None,
            params.seed,
            params.pacore.model_dump(mode="json", exclude=_NOT_IN_RESULTS),
            [[line.question.id, _plain(line), line.further] for line in lines],
        ]
    )


def _plain(line: QuestionLine) -> list[list[str]]:
    return [[str(turn.role), turn.content] for turn in line.question.conversation]


def solution_row(solution: Solution) -> Row:
    """The output line of a solution, in the fields of PaCoRe's published results and further ones."""
    answer = solution.answers[0]
    return {
        "request_id": solution.question.id,
        "status": answer.finish_reason.value,
        "final_response": answer.text,
        "final_reasoning_content": answer.reasoning,
        "round_responses": [
            [_response(one) for one in drawn.completions] for drawn in solution.rounds
        ],
        "rounds": [_counts(drawn) for drawn in solution.rounds],
        "usage": _usage(solution.cost),
        "critical_tokens": solution.cost.critical_tokens,
    }


def _response(completion: Completion) -> Row:
    return {"content": completion.text, "reasoning_content": completion.reasoning}


def _counts(drawn: Round) -> Row:
    return {
        "planned": drawn.width,
        "asked": len(drawn.completions),
        "failed": drawn.num_failed,
        "references": len(set().union(*drawn.references)),
        "dropped": drawn.dropped,
        "prompt_tokens": drawn.cost.prompt_tokens,
        "completion_tokens": drawn.cost.completion_tokens,
    }


def _usage(cost: Cost) -> Row:
    return {
        "prompt_tokens": cost.prompt_tokens,
        "completion_tokens": cost.completion_tokens,
        "total_tokens": cost.prompt_tokens + cost.completion_tokens,
        "calls": cost.calls,
        "failed_calls": cost.failed_calls,
    }
