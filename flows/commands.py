"""The commands on files: library calls between a progress bar and a table.

No Prefect here: `verify`, `build` and `evaluate` start in under a second.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as RichTable

from flows.progress_bar import progress_bar
from pipeline_lib.errors import BudgetReachedError
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.train import Method
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Group, Path, Problem, Row
from pipeline_lib.sampling.prompts import render
from pipeline_lib.serving.engines.table import engine_named
from pipeline_lib.storage.files import check_output, write_json_lines, write_text
from pipeline_lib.verification.line_summary import FormatAudit, LabelAgreement, LineSummary
from pipeline_lib.verification.lines import groups_from_lines, verify_lines
from pipeline_lib.verification.version import VERIFIER_VERSION

if TYPE_CHECKING:
    from pipeline_lib.reporting.tables import Table as PlainTable
    from pipeline_lib.serving.chat_model import ChatModel

_SHOWN_DISAGREEMENTS = 10


def verify_file(
    source: pathlib.Path,
    output: pathlib.Path,
    params: VerifyParams,
    console: Console,
    *,
    workers: int,
    audit: bool,
) -> None:
    """Judge every line of ``source`` into ``output`` and print what came of it."""
    with progress_bar(console, "verify") as moved:
        summary = verify_lines(source, output, params, workers=workers, on_progress=moved)
    _print_summary(console, summary)
    if summary.agreement:
        _print_agreement(console, summary.agreement)
    if audit:
        _print_audit(console, summary.audit)
    console.print(f"verdicts: {output}", markup=False, soft_wrap=True)


def _print_summary(console: Console, summary: LineSummary) -> None:
    table = RichTable("status", "lines", box=None, pad_edge=False)
    for status, count in summary.by_status.items():
        table.add_row(status, str(count))
    console.print(table)
    if summary.num_scored:
        console.print(
            f"right: {summary.num_strict} strict ({summary.strict_rate:.1%}), "
            f"{summary.num_lenient} lenient ({summary.lenient_rate:.1%}) "
            f"of {summary.num_scored} scored; {summary.num_lines - summary.num_scored} not scored"
        )


def _print_agreement(console: Console, agreement: LabelAgreement) -> None:
    console.print(
        f"labels: lenient score agrees on {agreement.num_agree} of {agreement.num_labelled} "
        f"({agreement.rate:.2%}); {agreement.num_refused_but_right} labelled wrong are right"
    )
    shown = agreement.disagreeing_ids[:_SHOWN_DISAGREEMENTS]
    if shown:
        more = len(agreement.disagreeing_ids) - len(shown)
        rest = f" and {more} more" if more else ""
        console.print(f"disagreements: {', '.join(shown)}{rest}", markup=False, soft_wrap=True)


def _print_audit(console: Console, audit: FormatAudit) -> None:
    console.print(f"refused by the strict score alone: {audit.num_refused} {dict(audit.by_rule)}")
    for sample in audit.samples:
        # A terminal cannot show the lone surrogates of model output.
        tail = " ".join(sample.tail.split()).encode("utf-8", "backslashreplace").decode()
        console.print(f"  {sample.id} [{sample.rule}] ... {tail}", markup=False, soft_wrap=True)


def build_file(
    source: pathlib.Path,
    output: pathlib.Path,
    method: Method,
    params: Params,
    console: Console,
    *,
    workers: int,
) -> None:
    """Judge the paths of ``source`` and write what ``method`` trains on, with its data card."""
    from pipeline_lib.traindata.builders import build  # noqa: PLC0415 - not for verify
    from pipeline_lib.traindata.tables import (  # noqa: PLC0415 - not for verify
        MAIN_TABLE,
        BuildContext,
    )

    card = output.with_suffix(".card.md")
    for written in (output, card):
        check_output(written, source=source)
    groups = _judged(source, params, console, workers=workers)
    data = build(
        method,
        groups,
        BuildContext(
            params=params.build,
            render=lambda problem: render(problem, None),
            seed=params.seed,
            verifier_version=VERIFIER_VERSION,
        ),
    )
    rows = data.rows_by_table[MAIN_TABLE[method]]
    write_json_lines(output, rows)
    write_text(card, data.card)
    table = RichTable("", "", show_header=False, box=None, pad_edge=False)
    for name, count in data.counts.items():
        table.add_row(name.replace("_", " "), f"{count:g}")
    console.print(table)
    console.print(f"{len(rows)} rows: {output}\ndata card: {card}", markup=False, soft_wrap=True)


def _judged(source: pathlib.Path, params: Params, console: Console, *, workers: int) -> list[Group]:
    with progress_bar(console, f"judge {source.name}") as moved:
        return groups_from_lines(source, params.verify, workers=workers, on_progress=moved)


def evaluate_files(
    source: pathlib.Path,
    against: pathlib.Path | None,
    params: Params,
    console: Console,
    *,
    workers: int,
) -> None:
    """Judge the paths of ``source`` (and of ``against``) and print scores with intervals."""
    from pipeline_lib.evaluation.summary import evaluate_groups  # noqa: PLC0415 - not for verify
    from pipeline_lib.reporting.tables import policy_table  # noqa: PLC0415 - not for verify

    groups = _judged(source, params, console, workers=workers)
    if against is None:
        summary = evaluate_groups(groups, params.evaluate, seed=params.seed)
        print_table(console, policy_table(summary))
        console.print(
            f"{summary.num_paths} paths, {summary.num_unscored} not scored; "
            f"{summary.truncated_fraction:.1%} truncated, "
            f"{summary.mean_completion_tokens:.1f} tokens each"
        )
        return
    from pipeline_lib.evaluation.result import evaluate_policies  # noqa: PLC0415 - not for verify
    from pipeline_lib.reporting.headline import headline  # noqa: PLC0415 - not for verify
    from pipeline_lib.reporting.tables import paired_table, score_table  # noqa: PLC0415 - as above

    before = _judged(against, params, console, workers=workers)
    result = evaluate_policies(before, groups, params.evaluate, seed=params.seed)
    print_table(console, score_table(result.summaries))
    print_table(console, paired_table(result.comparison))
    found = headline(result.comparison)
    console.print(found.title, style="bold")
    for sentence in found.sentences:
        console.print(sentence)


def sample_to_file(model: str, output: pathlib.Path, params: Params, console: Console) -> None:
    """Draw paths for the test problems, as lines that `verify`, `build` and `evaluate` read."""
    from pipeline_lib.problems.splits import make_splits  # noqa: PLC0415 - not for verify
    from pipeline_lib.sampling.accounting import Spent, budget_reached, spent_on  # noqa: PLC0415
    from pipeline_lib.sampling.paths import sample_paths  # noqa: PLC0415 - not for verify
    from pipeline_lib.storage.shards import split  # noqa: PLC0415 - not for verify
    from pipeline_lib.verification.golds import open_gold_check  # noqa: PLC0415 - as above

    check_output(output)
    with open_gold_check() as gold_problem:
        problems = make_splits(params.prepare, seed=params.seed, gold_problem=gold_problem).test

    done = 0
    spent = Spent()

    def lines(engine: ChatModel) -> Iterator[Row]:
        nonlocal done, spent
        for shard in split(problems, params.sample.shard_size):
            if budget_reached(spent, params.serve):
                return
            by_id = {problem.id: problem for problem in shard}
            paths = sample_paths(shard, engine, params.sample, seed=params.seed, draw="sample")
            yield from (_line(path, by_id[path.problem_id]) for path in paths)
            spent += spent_on(paths)
            done += len(shard)
            moved(done, len(problems))

    with (
        _engine(model, params, output.parent / "logs") as engine,
        progress_bar(console, "sample") as moved,
    ):
        write_json_lines(output, lines(engine))
    console.print(
        f"{done} problems x {params.sample.num_paths} paths: {output}",
        markup=False,
        soft_wrap=True,
    )
    if done < len(problems):
        raise BudgetReachedError(
            f"{budget_reached(spent, params.serve)}; {done} of {len(problems)} problems are in "
            f"{output}, raise the budget to draw all"
        )


@contextmanager
def _engine(model: str, params: Params, log_folder: pathlib.Path) -> Iterator[ChatModel]:
    """The rollout engine: in this process, on a server started for it, or on a running one."""
    serve = params.serve
    if engine_named(serve.engine).in_process:
        from pipeline_lib.serving.decoding.embedded_engine import EmbeddedEngine  # noqa: PLC0415 - torch

        yield EmbeddedEngine.load(model, batch_size=params.sample.batch_size)
        return
    from pipeline_lib.serving.connect import connect  # noqa: PLC0415 - transformers
    from pipeline_lib.serving.running_engine import serving_engine  # noqa: PLC0415 - not for verify

    if engine_named(serve.engine).is_external:
        serve = serve.model_copy(update={"model": model})
    with serving_engine(serve, model=model, log_folder=log_folder) as engine:
        yield connect(engine.endpoint, serve, model=model)


def _line(path: Path, problem: Problem) -> Row:
    return {
        "id": path.id,
        "problem_id": problem.id,
        "kind": problem.kind.name,
        "question": problem.question,
        **problem.kind.write_line(problem.gold),
        **asdict(path.provenance),
        "finish_reason": path.finish_reason.value,
        "prompt_tokens": path.prompt_tokens,
        "completion_tokens": path.completion_tokens,
        "text": path.text if path.error is None else None,
    }


def print_table(console: Console, table: PlainTable) -> None:
    """Print one of the report's tables."""
    shown = RichTable(*table.columns, title=table.caption, title_justify="left", box=None)
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown, markup=False)
