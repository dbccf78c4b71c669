"""Rollouts as examples of a page."""

import pathlib
from collections.abc import Sequence

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.study.pages.page import Example, Page, Paper, ShownText, ShownTexts, write_page
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.study import Study, bare_study
from pipeline_lib.systems.apr.evaluation.drawn import TOKEN_COUNTS, DrawnRows
from pipeline_lib.systems.apr.rollouts import Row

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
    write_page(path, study, Page(title=_TITLE, paper=_PAPER, notes=[_NOTE], examples=examples))


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
