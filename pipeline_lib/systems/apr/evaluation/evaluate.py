"""Evaluation of models on problems: rollouts.jsonl, metrics.json and report.html; and one rollout as a tree of its threads.

A killed evaluation continues.
"""

import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.problems.countdown import problem_id
from pipeline_lib.problems.trained import seen_in_training
from pipeline_lib.process_pool import results_of
from pipeline_lib.records import Problem
from pipeline_lib.store.files import check_output, write_json_lines
from pipeline_lib.store.journal import Journal, Piece, open_journal
from pipeline_lib.study.attempts import write_attempts
from pipeline_lib.study.headline import claims_of
from pipeline_lib.study.pages.page import (
    REPORT_NAME,
    Example,
    Page,
    Paper,
    ShownText,
    ShownTexts,
    write_page,
)
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.study import METRICS_NAME, Study, bare_study, write_study
from pipeline_lib.systems.apr.evaluation.limits import gates_of, limit_plots, limit_tables
from pipeline_lib.systems.apr.evaluation.plans import (
    EvaluationSetting,
    Plan,
    make_plans,
)
from pipeline_lib.systems.apr.evaluation.problem_source import ProblemSource
from pipeline_lib.systems.apr.evaluation.study import (
    TOKEN_COUNTS,
    DrawnRows,
    apr_study,
    rollout_attempts,
)
from pipeline_lib.systems.apr.problem_lines import countdown_problem, with_sorted_numbers
from pipeline_lib.systems.apr.task import Row, evaluated_row
from pipeline_lib.systems.apr.threads import Role
from pipeline_lib.systems.apr.words.task import GATES

ROLLOUTS_NAME = "rollouts.jsonl"

OnProgress = Callable[[int, int], None]


def evaluate_models(
    models: Mapping[str, pathlib.Path],
    source: ProblemSource,
    output: pathlib.Path,
    setting: EvaluationSetting,
    *,
    replaces: bool = False,
    on_progress: OnProgress = lambda _done, _total: None,
) -> list[DrawnRows]:
    """Evaluate each model under each condition and temperature, with the same seeds; returns the rollouts by setting.

    Finished rollouts of an earlier command are kept; those with a failed parent or child are drawn again.

    ``models`` are folders by the names that the files give them. With ``replaces`` rollouts of another input, model or
    setting in ``output`` are dropped, not refused. ``on_progress`` is called with finished and all rollouts.

    Raises:
        BadInputError: unusable models, problems or output; nothing has been drawn then.
        ReasonloopError: the server does not answer, or no rollout of a setting succeeded.
    """
    for name in (ROLLOUTS_NAME, METRICS_NAME, REPORT_NAME):
        check_output(output / name)
    plans = make_plans(models, source, setting)
    paths = [output / f"rollouts-{place + 1}.journal" for place in range(len(plans))]
    for left in {*output.glob("rollouts-*.journal")} - {*paths} if replaces else ():
        left.unlink()
    journals = [
        open_journal(path, key=plan.key, replaces_other=replaces)
        for path, plan in zip(paths, plans, strict=True)
    ]
    _draw(plans, journals, setting, on_progress)
    drawn = [
        DrawnRows(
            setting=plan.chosen,
            rows=[
                row
                for place in range(len(plan.groups))
                for row in journal.pieces[str(place)]["rows"]
            ],
        )
        for plan, journal in zip(plans, journals, strict=True)
    ]
    for one in drawn:
        if not one.whole:
            raise ReasonloopError(
                f"{one.setting.name}: every rollout failed; the first: {one.rows[0]['error']}"
            )
    study, series = apr_study(
        drawn,
        setting.evaluate,
        seed=setting.seed,
        seen={name: seen_in_training(str(at), source.problems) for name, at in models.items()},
        provenance=setting.provenance,
    )
    study = study.with_claims(claims_of(study))
    write_json_lines(
        output / ROLLOUTS_NAME,
        [
            {
                "model": one.setting.name,
                "kind": one.setting.kind,
                "condition": one.setting.condition,
                "temperature": one.setting.temperature,
                **row,
            }
            for one in drawn
            for row in one.rows
        ],
    )
    write_attempts(output / "attempts", list(rollout_attempts(study, drawn)))
    write_report(output / REPORT_NAME, study, drawn)
    write_study(output, study, series, map(with_sorted_numbers, source.problems))
    return drawn


def _draw(
    plans: Sequence[Plan],
    journals: Sequence[Journal],
    setting: EvaluationSetting,
    on_progress: OnProgress,
) -> None:
    """Draw the groups of all plans that their journals lack."""
    total = sum(len(plan.problems) * plan.samples for plan in plans)
    pieces = [
        (plan, journal, name, group)
        for plan, journal in zip(plans, journals, strict=True)
        for name, group in enumerate(plan.groups)
        if not _is_finished(journal.pieces.get(str(name)))
    ]
    left = sum(len(group) * plan.samples for plan, _, _, group in pieces)
    on_progress(total - left, total)
    work = [(plan, group) for plan, _, _, group in pieces]
    workers = 1 if setting.serve else min(setting.workers, left // setting.drawn_together)
    for place, rows in results_of(_drawn, work, workers=workers):
        _, journal, name, _ = pieces[place]
        journal.add(str(name), {"rows": rows})
        left -= len(rows)
        on_progress(total - left, total)


def _is_finished(piece: Piece | None) -> bool:
    """A group is drawn again if a parent or a child of it failed."""
    return piece is not None and not any(
        row.keys() & {"error", "child_error"} for row in piece["rows"]
    )


def _drawn(work: tuple[Plan, Sequence[Problem]]) -> list[Row]:
    plan, group = work
    drawn = plan.draw(group)
    judged = plan.model.task.judge(drawn, {problem.id: problem for problem in group})
    return [evaluated_row(one, its) for one, its in zip(drawn, judged, strict=True)]


def check_models(models: Sequence[pathlib.Path], url: str | None) -> None:
    """Check that models can be compared.

    Raises:
        BadInputError: one is given twice, or there are several and one server.
    """
    if len(set(models)) < len(models):
        raise BadInputError(f"{' '.join(map(str, models))}: a model is given twice")
    if url is not None and len(models) > 1:
        raise BadInputError(
            f"--url {url}: serves one model, {len(models)} are given; give the folder of that one"
        )


_EXAMPLES = 20
_TITLE = "threads that spawn and join"
_PAPER = Paper(
    title="Pan et al. 2025, Learning Adaptive Parallel Reasoning with Language Models",
    url="https://arxiv.org/abs/2504.15466",
)
_NOTE = (
    "A rollout is right if its parent claims a path that solves the problem. Drawn tokens are the cost of all threads; "
    "the critical path is the longest chain of draws that wait for each other."
)


def write_report(path: pathlib.Path, study: Study, drawn: Sequence[DrawnRows]) -> None:
    """Write the page of an evaluation, with the first rollouts of each setting."""
    rows = [(one.setting.label, row) for one in drawn for row in one.rows[:_EXAMPLES]]
    examples = [_example(label, row) for label, row in rows]
    page = Page(
        title=_TITLE,
        paper=_PAPER,
        notes=[*gates_of(drawn, GATES), _NOTE],
        plots=[*limit_plots(drawn)],
        tables=[*limit_tables(drawn)],
        examples=examples,
    )
    write_page(path, study, page)


def write_trace(path: pathlib.Path, model: str, row: Row) -> None:
    """Write a page with one rollout of ``model``."""
    tokens = Table(
        caption="Tokens of the rollout",
        columns=("model", *TOKEN_COUNTS),
        rows=((model, *(str(row["tokens"][name]) for name in TOKEN_COUNTS)),),
    )
    page = Page(title=_TITLE, paper=_PAPER, tables=[tokens], examples=[_example(model, row)])
    write_page(path, bare_study("apr", ["One rollout"], EvaluateParams(), seed=0), page)


def _example(title: str, row: Row) -> Example:
    is_whole = "error" not in row
    outcome = ("correct" if row["is_correct"] else "wrong") if is_whole else "discarded"
    failure = [] if is_whole else [ShownText(text=row["error"], outcome=outcome)]
    shown = [_sequence(one, outcome) for one in row["seqs"]]
    return Example(
        id=f"{row['problem_id']}, sample {row['sample']}",
        groups=[ShownTexts(title=title, texts=[*failure, *shown])],
    )


def _sequence(one: Row, outcome: str) -> ShownText:
    is_child = one["child"] is not None
    name = f"{one['role']} {one['child']}" if is_child else one["role"]
    tokens = [f"{one['tokens']} tokens"] if "tokens" in one else []
    return ShownText(
        text=one["output"],
        outcome="" if is_child else outcome,
        about=(name, f"round {one['round']}", *tokens),
        depth=int(is_child),
        prompt=one["prefix"],
    )


_PROBLEM = re.compile(r"\s*(\d{1,9}(?:\s*,\s*\d{1,9})+)\s*=\s*(\d{1,9})\s*", re.ASCII)


def parse_problem(text: str) -> Problem:
    """The problem of a text such as ``3,5,12=27``.

    Raises:
        BadInputError: it is no such text.
    """
    found = _PROBLEM.fullmatch(text)
    if found is None:
        raise BadInputError(f"--problem {text}: expected numbers and a target, as in 3,5,12=27")
    # Sorted as in the data, where the same problem has the same id, hence the same seeds.
    numbers = tuple(sorted(int(number) for number in found[1].split(",")))
    target = int(found[2])
    gold = CountdownGold(numbers=numbers, target=target)
    return countdown_problem(problem_id(numbers, target), gold)


def trace_problem(folder: pathlib.Path, problem: Problem, setting: EvaluationSetting) -> Row:
    """The first rollout of ``problem``, with the seeds of an evaluation that has a problem of this id.

    Returns:
        A row as in rollouts.jsonl, with ``tokens`` in each sequence.

    Raises:
        BadInputError: the model or the condition cannot be used.
        ReasonloopError: the server does not answer.
    """
    [plan] = make_plans({str(folder): folder}, ProblemSource(problems=[problem]), setting)
    [rollout] = plan.draw(plan.problems)
    [judged] = plan.model.task.judge([rollout], {problem.id: problem})
    row, count = evaluated_row(rollout, judged), plan.model.tokens.count
    assert count is not None
    for shown, sequence in zip(row["seqs"], rollout.sequences, strict=True):
        ids = sequence.output_ids
        shown["tokens"] = count(sequence.output) if ids is None else len(ids)
    return row


def tree_lines(row: Row) -> Iterator[str]:
    """The tree: threads by indentation, each draw with its tokens and its text."""
    for sequence in row["seqs"]:
        is_child = sequence["role"] == Role.CHILD
        indent = "    " if is_child else ""
        thread = f"child {sequence['child']}" if is_child else "parent"
        yield f"{indent}{thread}, round {sequence['round']}: {sequence['tokens']} tokens"
        yield from (f"{indent}  {line}" for line in sequence["output"].strip("\n").split("\n"))
    if "error" in row:
        yield f"failed: {row['error']}"
        return
    right = "right" if row["is_correct"] else "wrong"
    claim = "no claim" if row["claim"] is None else f"the claim is {right}"
    counts = ", ".join(f"{name} {row['tokens'][name]}" for name in TOKEN_COUNTS)
    yield f"{claim}; tokens: {counts}"
