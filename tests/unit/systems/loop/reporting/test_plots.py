"""Figures are well-formed, reproducible, and follow the reader's colour scheme."""

from xml.etree import ElementTree as ET

import pytest

from pipeline_lib.study.pages.cost_figures import cost_figures
from pipeline_lib.study.pages.training_curves import training_plots
from pipeline_lib.systems.loop.report import pass_at_k_curves
from pipeline_lib.systems.loop.reporting import plots
from tests.unit.systems.loop.reporting.demo_report import demo_input

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def source():
    return demo_input(30, resamples=100)


def all_plots(source):
    return [
        plots.pass_at_k_plot(pass_at_k_curves(source)),
        *cost_figures(source.study),
        *training_plots(source.training_log, ["reward", "loss"]),
    ]


def test_the_same_figures_give_the_same_bytes(source):
    """No date, no version, no random id: a figure changes only with its data."""
    assert all_plots(source) == all_plots(source)


def test_each_is_svg_with_words_beside_it(source):
    """It parses, its texts are texts (not outlines), and it has a title and an alternative."""
    for plot in all_plots(source):
        root = ET.fromstring(plot.svg)
        assert root.tag == f"{SVG}svg"
        assert root.findall(f".//{SVG}text")
        assert plot.title
        assert plot.alt.endswith(".")


def test_colours_follow_the_scheme(source):
    """Every colour that is drawn has a dark counterpart; none is left fixed."""
    svg = plots.pass_at_k_plot(pass_at_k_curves(source)).svg
    assert "prefers-color-scheme:dark" in svg
    drawn = svg.split("</style>", 1)[1]
    assert drawn.count("#b26a1f") == drawn.count("var(--cb26a1f, #b26a1f)") > 0
    assert drawn.count("#0b6e6e") == drawn.count("var(--c0b6e6e, #0b6e6e)") > 0


def test_training_curves_need_two_logged_values():
    """A value that was logged once, or never, makes no curve; gaps in a log are skipped."""
    rows = [{"step": 1, "reward": 0.1, "once": 1.0}, {"step": 2}, {"step": 3, "reward": 0.3}]
    made = training_plots(rows, ["reward", "once", "never"])
    assert [plot.name for plot in made] == ["training_reward"]
    assert made[0].alt == "reward: 2 steps from 0.1 to 0.3."


def test_phases_of_a_training_are_curves_of_their_own():
    """The losses of a warm start and of what follows are not averaged into each other: the second
    curve starts at its own 0.01, and each phase is named where it begins."""
    rows = [
        {"phase": phase, "step": offset + step, "loss": loss}
        for phase, offset, loss in (("warm-start", 0, 0.5), ("grpo", 40, 0.01))
        for step in range(1, 41)
    ]
    (made,) = training_plots(rows, ["loss"])
    assert made.alt == (
        "loss: warm-start, 40 steps from 0.5 to 0.5; grpo, 40 steps from 0.01 to 0.01."
    )
    assert " warm-start<" in made.svg
    assert " grpo<" in made.svg
