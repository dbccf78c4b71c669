"""report.html of an evaluation: one file without scripts or requests, readable on a phone.

Model output is escaped by the template; the content security policy forbids every request.
"""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from pipeline_lib.records import Problem
from pipeline_lib.store.files import write_text
from pipeline_lib.study.pages.environment import page_environment
from pipeline_lib.study.pages.figures import STYLE, Plot, new_figure, svg_text
from pipeline_lib.systems.pacore.evaluation.comparison import (
    against_table,
    headline,
    last_call_table,
    point_table,
    reference_table,
)
from pipeline_lib.systems.pacore.evaluation.judging import Scores
from pipeline_lib.systems.pacore.evaluation.result import Axis, PacorePoint, PacoreResult
from pipeline_lib.systems.pacore.evaluation.trials import PLAIN, Trial, TrialPath

_SIZE_INCHES = (4.8, 4.6)
_VOTE_COLORS = ("#7d858e", "#0b8f8f", "#d4553f", "#c77d0a", "#7d858e")
_COLORS = ("#8a6fc9", "#4f8fd6", "#5c9e3d", "#c23b9c", "#a0763c", "#b8577a")
_MARKERS = "sD^vP*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Content of the part of one model."""

    result: PacoreResult
    problems: Sequence[Problem]
    trials: Mapping[str, Mapping[str, Trial]]
    scores: Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPath:
    """A path as the page shows it."""

    number: int
    text: str
    outcome: str
    """correct, wrong or discarded."""
    references: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTrial:
    """The rounds of one strategy for one problem."""

    strategy: str
    right: bool | None
    rounds: Sequence[Sequence[ShownPath]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProblem:
    """A problem with the trials of the page's strategies."""

    id: str
    question: str
    gold: str
    trials: Sequence[ShownTrial]


def write_page(path: pathlib.Path, pages: Sequence[Page], *, num_examples: int) -> None:
    """Write the report of all models."""
    text = (
        page_environment(pathlib.Path(__file__).parent)
        .get_template("page.html.j2")
        .render(
            parts=[
                {
                    "model": page.result.model,
                    "sentences": headline(page.result),
                    "tables": [
                        point_table(page.result),
                        against_table(page.result),
                        reference_table(page.result),
                        last_call_table(page.result),
                    ],
                    "plots": [plot(page.result, axis) for axis in Axis],
                    "problems": _examples(page, num_examples),
                }
                for page in pages
            ]
        )
    )
    write_text(path, text)


def plot(result: PacoreResult, axis: Axis) -> Plot:
    """Accuracy against one cost."""
    votes: dict[str, list[PacorePoint]] = {}
    for point in result.points:
        if point.is_vote:
            votes.setdefault(point.name, []).append(point)
    own = [point for point in result.points if not point.is_vote]
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(_SIZE_INCHES)
        for (name, points), color in zip(votes.items(), _VOTE_COLORS, strict=False):
            bound = points[0].upper_bound
            _draw(axes, axis, points, label=f"{name} (bound)" if bound else name, color=color)
        for number, point in enumerate(own):
            _draw(
                axes,
                axis,
                [point],
                label=point.name,
                color=_COLORS[number % len(_COLORS)],
                marker=_MARKERS[number % len(_MARKERS)],
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(f"{axis.value}, tokens per problem")
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
        figure.legend(loc="outside lower center", ncols=2, fontsize=8)
        return Plot(
            name=f"pacore_{axis.name.lower()}",
            title=f"Accuracy against {axis.value}",
            alt=f"Accuracy over {axis.value} of {result.num_problems} problems; the table has the figures.",
            svg=svg_text(figure),
        )


def _draw(
    axes: Axes,
    axis: Axis,
    points: Sequence[PacorePoint],
    *,
    label: str,
    color: str,
    marker: str = "o",
) -> None:
    scores = [point.accuracy for point in points]
    axes.errorbar(
        [max(point.costs[axis], 1) for point in points],
        [one.value for one in scores],
        yerr=[[one.value - one.low for one in scores], [one.high - one.value for one in scores]],
        label=label,
        color=color,
        marker=marker,
        ms=3 if points[0].is_vote else 6,
        lw=1.2,
        elinewidth=0.6,
        ls="--" if points[0].upper_bound else "-",
    )


def _examples(page: Page, limit: int) -> list[ShownProblem]:
    count = min(limit, len(page.problems))
    places = (index * len(page.problems) // count for index in range(count))
    return [_example(page, page.problems[place]) for place in places]


def _example(page: Page, problem: Problem) -> ShownProblem:
    trials = page.trials[problem.id]
    return ShownProblem(
        id=problem.id,
        question=problem.question,
        gold=problem.kind.show_gold(problem.gold),
        trials=[
            _shown_trial(page.scores, trial) for name, trial in trials.items() if name != PLAIN
        ],
    )


def _shown_trial(scores: Scores, trial: Trial) -> ShownTrial:
    def shown(number: int, path: TrialPath) -> ShownPath:
        right = None if path.text is None else scores[trial.problem_id, path.text]
        outcome = "discarded" if right is None else "correct" if right else "wrong"
        return ShownPath(
            number=number,
            text=path.text if path.text is not None else "the call failed",
            outcome=outcome,
            references=", ".join(str(place + 1) for place in path.references),
        )

    rounds = [
        [shown(number, path) for number, path in enumerate(paths, start=1)]
        for paths in trial.rounds
    ]
    last = trial.rounds[-1][0]
    right = None if last.text is None else scores[trial.problem_id, last.text]
    return ShownTrial(strategy=trial.strategy, right=right, rounds=rounds)
