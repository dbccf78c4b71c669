"""A study: points, differences, corrected tests, names of arms, files."""

import dataclasses

import numpy as np
import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.store import shards
from pipeline_lib.store.files import read_json
from pipeline_lib.study.attempts import Cost
from pipeline_lib.study.headline import claims_of
from pipeline_lib.study.names import SUBSETS
from pipeline_lib.study.pages.cost_figures import cost_figures
from pipeline_lib.study.pages.page import Page, Paper, write_page
from pipeline_lib.study.statistics.intervals import score_interval
from pipeline_lib.study.study import (
    Arm,
    Contrast,
    Series,
    Study,
    make_study,
    read_study,
    study_row,
    write_study,
)

EVALUATE = EvaluateParams(resamples=500)


def series(base: str, values: list[float], **settings: str | float) -> Series:
    """One value per problem, at a cost of ten tokens."""
    names = [f"p{place:02d}" for place in range(len(values))]
    return Series(
        arm=Arm(base=base, settings=settings),
        measure="accuracy",
        values=dict(zip(names, values, strict=True)),
        costs={name: Cost(drawn=10, critical=10) for name in names},
        seed_names=("test", base),
    )


def study_of(*contrasts: Contrast, further: list[Series] | None = None) -> Study:
    used = [one for pair in contrasts for one in (pair.candidate, pair.reference)]
    return make_study(
        "toy",
        [*used, *(further or [])],
        contrasts,
        evaluate=EVALUATE,
        seed=7,
        provenance={"version": "1", "commit": None, "params_digest": "abc"},
        left_out={"a call failed": 2, "nothing": 0},
    )


WEAK = series("plain", [0.0] * 30 + [1.0] * 10)
STRONG = series("peers", [0.0] * 10 + [1.0] * 30)


def test_points_and_differences():
    """The difference is paired; its bounds and the points' come from the named seeds."""
    found = study_of(Contrast(candidate=STRONG, reference=WEAK, seed_names=("test", "pair")))
    point = found.point("peers", "accuracy")
    assert (point.value, point.n, point.cost) == (0.75, 40, Cost(drawn=10, critical=10))
    values_P = np.array([*STRONG.values.values()])
    expected = score_interval(values_P, EVALUATE, seed=child_seed(7, "test", "peers"))
    assert point.interval == expected
    gain = found.headline
    assert gain is not None
    assert (gain.arm, gain.reference, gain.value, gain.n) == ("peers", "plain", 0.5, 40)
    assert gain.finding == "gain"
    assert [(one.reason, one.n) for one in found.left_out] == [("a call failed", 2)]


def test_a_reference_that_is_no_series_has_a_name_and_no_point():
    """As one that is chosen among other arms."""
    best = dataclasses.replace(WEAK, arm=Arm(base="best vote, drawn", settings={"for": "peers"}))
    pair = Contrast(candidate=STRONG, reference=best, seed_names=("x",))
    found = make_study("toy", [STRONG], [pair], evaluate=EVALUATE, seed=7, provenance={})
    assert [one.name for one in found.arms] == ["peers", "best vote, drawn"]
    assert [one.arm for one in found.points] == ["peers"]
    assert found.headline.reference == "best vote, drawn"


def test_a_point_of_one_attempt_has_wilsons_interval():
    binomial = dataclasses.replace(STRONG, is_binomial=True)
    point = study_of(further=[binomial]).points[0]
    assert point.low == pytest.approx(0.5981, abs=1e-4)


def test_problems_of_one_arm_alone_are_in_no_difference():
    short = series("plain", [0.0] * 5)
    found = study_of(Contrast(candidate=STRONG, reference=short, seed_names=("x",)))
    assert found.differences[0].n == 5
    apart = dataclasses.replace(short, values={"other": 1.0})
    assert study_of(Contrast(candidate=STRONG, reference=apart, seed_names=("x",))).headline is None


def test_varying_settings_are_in_the_name():
    """The base alone where nothing varies; otherwise the settings that do, sorted."""
    found = study_of(
        further=[
            series("rounds", [1.0], widths="16,1", T=1),
            series("rounds", [1.0], widths="16,1", T=0.5),
            series("plain", [1.0], T=1),
            series("rounds", [1.0], widths="16,1"),
        ]
    )
    assert [one.name for one in found.arms] == ["rounds T=1", "rounds T=.5", "plain", "rounds"]


def test_holm():
    """Adjusted p-values of a family; a contrast outside of it has none."""
    pairs = [
        Contrast(candidate=STRONG, reference=WEAK, seed_names=("a",), family="f"),
        Contrast(candidate=WEAK, reference=WEAK, seed_names=("b",), family="f"),
        Contrast(candidate=STRONG, reference=WEAK, seed_names=("a",)),
    ]
    first, second, apart = study_of(*pairs).differences
    assert first.p_adjusted == 2 * first.p
    assert second.p_adjusted == 1.0
    assert apart.p_adjusted is None


def test_files_round_trip(tmp_path):
    found = study_of(Contrast(candidate=STRONG, reference=WEAK, seed_names=("test", "pair")))
    claims = claims_of(found)
    found = found.with_claims(claims)
    write_study(tmp_path, found, [STRONG, WEAK], [])
    assert read_json(tmp_path / "metrics.json") == study_row(found)
    assert read_json(tmp_path / "metrics.json")["schema"] == 2
    assert read_study(tmp_path / "metrics.json") == found
    summary = read_json(tmp_path / "summary.json")
    assert summary["gain"] == 0.5
    assert len(summary) <= 12
    assert len(shards.read_table(tmp_path / "values")) == 80
    assert claims[0] == "Peers gains 50.0 points of accuracy over plain"
    page = Page(title="Toy", paper=Paper(title="A paper", url="https://example.org"))
    write_page(tmp_path / "report.html", found, page)
    text = (tmp_path / "report.html").read_text()
    assert f"<h1>{claims[0]}</h1>" in text
    assert "The policy whose reward counts the success of peers." in text


def test_a_page_defines_subsets_of_differences(tmp_path):
    """A subset that no point has."""
    cut = Contrast(candidate=STRONG, reference=WEAK, seed_names=("x",), subset="equal path")
    write_page(tmp_path / "report.html", study_of(cut), Page(title="Toy"))
    assert SUBSETS["equal path"].replace("'", "&#39;") in (tmp_path / "report.html").read_text()


def test_nothing_solved_claims_nothing():
    zero = [series(name, [0.0] * 20) for name in ("peers", "plain")]
    found = study_of(Contrast(candidate=zero[0], reference=zero[1], seed_names=("x",)))
    assert claims_of(found)[0] == "Nothing was solved, so nothing is claimed."


def test_no_gain_says_what_could_not_show():
    found = study_of(Contrast(candidate=WEAK, reference=WEAK, seed_names=("x",)))
    title, _, limit = claims_of(found)
    assert title == "No significant gain of plain over plain in accuracy"
    assert "cannot be told from chance" in limit


def test_figures_of_each_value_of_a_setting():
    """Three costs of two models; the model is in the title, not in the legend. Of one model the figures are whole."""
    values = [series(base, [1.0], model=model) for model in "ab" for base in ("plain", "peers")]
    plots = cost_figures(study_of(further=values), by="model")
    assert [one.name for one in plots[::3]] == ["toy_1_drawn", "toy_2_drawn"]
    assert plots[3].title == "Accuracy of b against drawn tokens"
    assert "model=" not in plots[3].svg
    assert [one.name for one in cost_figures(study_of(further=values[:2]), by="model")] == [
        *("toy_drawn", "toy_drawn_total", "toy_critical"),
    ]


@pytest.mark.parametrize("content", ['{"schema": 1}', "[]", '{"schema": 2, "system": "toy"}'])
def test_a_file_of_another_version_or_a_damaged_one_is_one_line(tmp_path, content):
    """The file and the remedy are named."""
    path = tmp_path / "metrics.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BadInputError, match=r"metrics\.json: .*evaluate again"):
        read_study(path)


def test_an_arm_with_two_accuracies_is_one_point_of_the_figures():
    """The mean over all paths, 75 %, and not the accuracy of one path of each problem, 25 %."""
    both = [
        dataclasses.replace(STRONG, measure="pass@1"),
        dataclasses.replace(WEAK, arm=STRONG.arm),
    ]
    figures = cost_figures(study_of(further=[*both, WEAK]))
    assert all("peers: 75.0" in one.alt and "plain: 25.0" in one.alt for one in figures)
