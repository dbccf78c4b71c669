"""Prefixes, and continuations of some problems, for the page of Classmate."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from pipeline_lib.records import Problem, Row
from pipeline_lib.study.pages.page import Example, Page, Paper, ShownText, ShownTexts
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import EMPTY, percent
from pipeline_lib.study.study import Study

_PAPER = Paper(
    title="ClassmateCoT: Collaborative Chain-of-Thought Reinforcement Learning",
    url="https://github.com/Lorenayannnnn/classmate-cot-verl",
)
_NOTES = (
    "Peers are frozen models that continue a prefix of a path; they succeed if prefix and continuation together are right.",
    "A share of the steps is kept, less where it would give the answer away.",
    "Each policy is one training: the intervals are over problems, and say nothing of other seeds.",
)
_EXAMPLES = 24


def classmate_page(study: Study, problems: Sequence[Problem], rows: Sequence[Row]) -> Page:
    """The page.

    Args:
        study: the study.
        problems: in the order of the examples.
        rows: continuations.
    """
    return Page(
        title="Chains that peers can use",
        paper=_PAPER,
        notes=_NOTES,
        tables=[prefix_table(study)],
        examples=[_example(one, rows) for one in problems[:_EXAMPLES]],
    )


def prefix_table(study: Study) -> Table:
    """Kept steps, leaks and spread by arm and share."""
    peers = list(study.compute["peers"])
    return Table(
        caption="Prefixes by share of the steps; true deviation of a peer's success among the right prefixes of a problem",
        columns=(
            *("arm", "share", "kept steps", "cut back, since they gave the answer away"),
            *(f"deviation, {peer}" for peer in peers),
        ),
        rows=tuple(
            (
                *(row["arm"], f"{row['share']:g}", f"{row['kept_steps']:.2f}"),
                percent(row["leak_rate"]),
                *(
                    EMPTY if found is None else f"{found['sd']:.2f}"
                    for found in map(row["spread"].get, peers)
                ),
            )
            for row in study.compute["prefixes"]
        ),
    )


def _example(problem: Problem, rows: Sequence[Row]) -> Example:
    own = sorted(
        (row for row in rows if row["problem_id"] == problem.id),
        key=lambda row: (row["peer"], row["prefix"]),
    )
    return Example(
        id=problem.id,
        question=problem.question,
        groups=[
            ShownTexts(title=peer, texts=list(_shown(found)))
            for peer, found in groupby(own, key=lambda row: str(row["peer"]))
        ],
    )


def _shown(rows: Iterator[Row]) -> Iterator[ShownText]:
    for row in rows:
        outcome = {None: "discarded", True: "correct", False: "wrong"}[row["strict"]]
        about = (row["failure"],) if row["failure"] else ()
        yield ShownText(text=row["text"], outcome=outcome, about=about, prompt=row["prefix"])
