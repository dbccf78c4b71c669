"""The headline says what the comparison found, and nothing more."""

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.publish.reporting.headline import make_headline, make_loop_headline
from pipeline_lib.publish.reporting.metrics_file import build_further_metrics
from pipeline_lib.publish.reporting.tables import temperature_table
from pipeline_lib.store.files import read_checked, write_checked
from pipeline_lib.study.pages.wording import EMPTY
from pipeline_lib.study.result import Baseline, FurtherResults, evaluate_policies
from tests.unit.study.judged_groups import judged_group


def headline_of(base, trained, *, ks=(1, 2)):
    """Headline for lists of letters, one text a problem."""
    groups = [
        [judged_group(f"p{index:03d}", letters) for index, letters in enumerate(policy)]
        for policy in (base, trained)
    ]
    params = EvaluateParams(num_paths=2 * max(ks), ks=ks, resamples=1000)
    found = make_headline(evaluate_policies(*groups, params, seed=7).comparison)
    return found.title, " ".join(found.sentences).replace("\N{NO-BREAK SPACE}", " ")


def test_seven_of_twenty_to_eleven_of_twenty_is_not_a_gain():
    """20 points on 20 problems are no finding; a sentence states the detectable difference."""
    base = ["cc"] * 7 + ["ww"] * 13
    trained = ["ww"] * 2 + ["cc"] * 11 + ["ww"] * 7
    title, text = headline_of(base, trained, ks=(1,))
    assert title == "No significant gain in pass@1"
    assert "No significant gain: pass@1 went from 35.0 % to 55.0 % (+20.0 points" in text
    assert "With only 20 problems, differences below about" in text
    assert "rose" not in title + text


def test_a_gain_carries_its_interval_and_number_of_problems():
    """100 problems from 1 of 4 to 3 of 4, give or take one: +50 points, and the interval is given."""
    base = ["cwww", "ccww"] * 50
    title, text = headline_of(base, ["ccwc", "cccc"] * 50)
    assert title == "pass@1 rose by 50.0 points"
    assert "pass@1 rose from 37.5 % to 87.5 % (+50.0 points, 95 % interval" in text
    assert "on 100 held-out problems" in text
    assert "With only" not in text


def test_lost_coverage_stands_in_the_title():
    """Sharpening: pass@1 from 0.25 to 0.4, but pass@2 from 0.5 to 0.4, said in title and text."""
    base = ["cwww"] * 200
    title, text = headline_of(base, ["cccc"] * 80 + ["wwww"] * 120)
    assert title == "pass@1 rose by 15.0 points; coverage (pass@2) fell by 10.0"
    assert "Coverage fell: pass@2 went from 50.0 % to 40.0 %" in text


def test_a_loss_is_called_a_loss():
    """From 3 of 4 to 1 of 4 everywhere."""
    title, text = headline_of(["cccw"] * 30, ["cwww"] * 30)
    assert title.startswith("pass@1 fell by 50.0 points")
    assert "pass@1 fell from 75.0 % to 25.0 %" in text


def test_a_gain_of_format_is_called_one():
    """The same answers, now in the format that was asked for: the lenient score did not move."""
    _, text = headline_of(["ffww"] * 120, ["ccww"] * 120)
    assert "The gain is in format only" in text


def test_unchanged_coverage_is_not_called_kept():
    """No significant change is all that may be said where nothing was found."""
    _, text = headline_of(["ccww"] * 120, ["ccww"] * 120)
    assert "No significant change of coverage: pass@2" in text


def test_unpaired_problems_are_told():
    """One problem has too few scored paths after training: a sentence says that it is left out."""
    _, text = headline_of(["ccww"] * 120, ["ccww"] * 119 + ["cxxx"])
    assert "1 problems were scored for one policy only and are left out." in text


def loop_headline_of(base, control, trained, *, ks=(1, 2)):
    """Headline of a run for lists of letters, one text a problem."""
    groups = [
        [judged_group(f"p{index:03d}", letters) for index, letters in enumerate(policy)]
        for policy in (base, trained, control)
    ]
    params = EvaluateParams(num_paths=2 * max(ks), ks=ks, resamples=1000)
    found = make_loop_headline(evaluate_policies(*groups[:2], params, seed=7, control=groups[2]))
    return found.title, " ".join(found.sentences).replace("\N{NO-BREAK SPACE}", " ")


def test_the_title_of_a_run_is_the_gain_over_the_control():
    """Base 1 of 4, control 2 of 4, trained 3 of 4: 25 points are the loop's, 25 need no loop."""
    title, text = loop_headline_of(["cwww"] * 120, ["ccww"] * 120, ["cccw"] * 120)
    assert title.startswith("The loop adds 25.0 points of pass@1 to an equal-compute control")
    assert "Over the control on 120 held-out problems: pass@1 rose from 50.0 % to 75.0 %" in text
    assert "Over the base: pass@1 rose from 25.0 % to 75.0 %" in text
    assert "pass@1 of the control minus that of the base: +25.0 points." in text


def test_a_gain_over_the_base_alone_is_no_gain():
    """Control and trained alike: the title says so, though both are far above the base."""
    title, text = loop_headline_of(["cwww"] * 120, ["cccw"] * 120, ["cccw"] * 120)
    assert title == "No gain over the control, more supervised training"
    assert "Over the base: pass@1 rose from 25.0 % to 75.0 %" in text


def test_coverage_lost_against_the_control_stands_in_the_title():
    """pass@1 +15 points by sharpening, pass@2 from 0.5 to 0.4."""
    title, _ = loop_headline_of(["wwww"] * 200, ["cwww"] * 200, ["cccc"] * 80 + ["wwww"] * 120)
    assert title == (
        "The loop adds 15.0 points of pass@1 to an equal-compute control; "
        "coverage (pass@2) is 10.0 lower"
    )


def test_below_the_control_is_said():
    """The loop did harm: from 3 of 4 to 1 of 4."""
    title, _ = loop_headline_of(["wwww"] * 60, ["cccw"] * 60, ["cwww"] * 60)
    assert title.startswith("No gain over the control: pass@1 is 50.0 points below more")


def test_a_run_without_a_control_says_so():
    """Without a control the title and the sentences say so."""
    groups = [[judged_group(f"p{n:03d}", letters) for n in range(100)] for letters in ("cw", "cc")]
    params = EvaluateParams(num_paths=2, ks=(1,), resamples=500)
    found = make_loop_headline(evaluate_policies(*groups, params, seed=7))
    assert found.title == "pass@1 rose by 50.0 points, without a control"
    assert "There was no control" in found.sentences[-1]


def result_of(base, trained):
    groups = [
        [judged_group(f"p{index:03d}", letters) for index, letters in enumerate(policy)]
        for policy in (base, trained)
    ]
    return evaluate_policies(*groups, EvaluateParams(num_paths=4, ks=(1, 2), resamples=500), seed=7)


RISE = result_of(["cwww", "ccww"] * 60, ["cccw", "cccc"] * 60)
STILL = result_of(["cccw"] * 120, ["cccw", "ccwc"] * 60)


def at_temperatures(first, further):
    found = make_loop_headline(first, further=further, temperature=0.7)
    return found.title, " ".join(found.sentences).replace("\N{NO-BREAK SPACE}", " ")


def test_a_gain_that_is_missing_at_a_lower_temperature_can_be_sharpness():
    """The title names both temperatures; a sentence says what such a gain can be."""
    title, text = at_temperatures(RISE, FurtherResults(temperatures={0.2: STILL}))
    assert "rose by" in title
    assert "; pass@1 gains at temperature 0.7, not at 0.2" in title
    assert "At temperature 0.2, over the base: No significant gain" in text
    assert "sharper distribution" in text


def test_a_gain_that_is_missing_at_a_higher_temperature_is_not_sharpness():
    """A sharper policy would gain there most of all."""
    title, text = at_temperatures(RISE, FurtherResults(temperatures={1.0: STILL}))
    assert "; pass@1 gains at temperature 0.7, not at 1" in title
    assert "sharper" not in text


def test_a_gain_at_all_temperatures():
    """The title claims it of pass@1 alone, since coverage can fall where pass@1 gains."""
    title, text = at_temperatures(RISE, FurtherResults(temperatures={0.2: RISE, 0.4: RISE}))
    assert "; pass@1 gains at temperatures 0.7 and 0.2 and 0.4" in title
    assert "sharper" not in text


def test_a_gain_at_a_further_temperature_alone():
    """The title has no gain, and names the temperature that has one."""
    title, text = at_temperatures(STILL, FurtherResults(temperatures={0.2: RISE}))
    assert title.startswith(
        "No significant gain in pass@1; pass@1 gains at temperature 0.2, not at 0.7"
    )
    assert "At temperature 0.2, over the base: pass@1 rose" in text
    assert "sharper" not in text


def test_no_gain_at_any_temperature():
    """The title has no clause."""
    title, _ = at_temperatures(STILL, FurtherResults(temperatures={0.2: STILL}))
    assert "temperature" not in title


def test_baselines_are_named(tmp_path):
    """The untouched model at its temperature."""
    baseline = Baseline(
        name="untouched", temperature=0.7, summary=RISE.base, comparison=RISE.comparison
    )
    further = FurtherResults(baselines=(baseline,))
    _, text = at_temperatures(RISE, further)
    assert "Over the untouched model at temperature 0.7: pass@1 rose from 37.5 %" in text
    write_checked(tmp_path / "further.json", further)
    assert read_checked(tmp_path / "further.json", FurtherResults, remedy="") == further
    table = temperature_table(RISE, further, temperature=0.7)
    assert [row[:2] for row in table.rows] == [
        ("0.7", "untouched"),
        ("0.7", "base"),
        ("0.7", "trained"),
    ]
    assert table.rows[2][-1] == EMPTY
    assert table.columns[-3:] == ("pass@1, lenient", "truncated", "trained minus it")
    assert [row[-2] for row in table.rows] == ["0.0\N{NO-BREAK SPACE}%"] * 3
    assert build_further_metrics(further)["baselines"][0]["scores"]["pass_at_1"]["value"] == 0.375
    assert build_further_metrics(FurtherResults()) == {}
