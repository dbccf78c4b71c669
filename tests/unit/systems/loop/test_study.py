"""The claims of a run say what the comparison found, and nothing more."""

import pytest

from tests.unit.systems.loop.invented_study import groups_of, invented, params_of


def claims_of(base, trained, control=None, *, ks=(1, 2)):
    """Title and sentences for lists of letters, one text a problem."""
    letters = {"base": base, "trained": trained, **({"control": control} if control else {})}
    groups = {name: groups_of(each) for name, each in letters.items()}
    params = params_of(ks=ks, control=control is not None)
    title, *claims = invented(groups, params)[0].claims
    return title, " ".join(claims).replace("\N{NO-BREAK SPACE}", " ")


def test_seven_of_twenty_to_eleven_of_twenty_is_not_a_gain():
    """20 points on 20 problems are no finding; a sentence states the detectable difference."""
    title, text = claims_of(
        ["cc"] * 7 + ["ww"] * 13, ["ww"] * 2 + ["cc"] * 11 + ["ww"] * 7, ks=(1,)
    )
    assert title == "No significant gain of policy over base in pass@1"
    assert (
        "pass@1 of policy is 55.0 %, of base 35.0 %, on the same 20 problems: +20.0 points" in text
    )
    assert "With 20 problems and one training of each, differences below about" in text
    assert "There was no control" in text


def test_the_title_of_a_run_is_the_gain_over_the_control():
    """Base 1 of 4, control 2 of 4, trained 3 of 4: 25 points are the loop's, 25 need no loop."""
    title, text = claims_of(["cwww"] * 120, ["cccw"] * 120, ["ccww"] * 120)
    assert title == "Policy gains 25.0 points of pass@1 over control"
    assert "pass@1 of policy is 75.0 %, of control 50.0 %, on the same 120 problems" in text
    assert "pass@1 of policy is 75.0 %, of base 25.0 %" in text
    assert "pass@1 of control is 50.0 %, of base 25.0 %" in text
    assert "95 % interval" in text
    assert "cannot be told" not in text


def test_a_gain_over_the_base_alone_is_no_gain():
    """Control and trained alike: the title says so, though both are far above the base."""
    title, text = claims_of(["cwww"] * 120, ["cccw"] * 120, ["cccw"] * 120)
    assert title == "No significant gain of policy over control in pass@1"
    assert "pass@1 of policy is 75.0 %, of base 25.0 %" in text


def test_coverage_lost_against_the_control_is_said():
    """pass@1 +15 points by sharpening, pass@2 from 0.5 to 0.4."""
    _, text = claims_of(["wwww"] * 200, ["cccc"] * 80 + ["wwww"] * 120, ["cwww"] * 200)
    assert "pass@2 of policy is 40.0 %, of control 50.0 %" in text
    assert "significantly lower" in text


def test_below_the_control_is_said():
    """The loop did harm: from 3 of 4 to 1 of 4."""
    title, _ = claims_of(["wwww"] * 60, ["cwww"] * 60, ["cccw"] * 60)
    assert title == "No gain: policy is 50.0 points of pass@1 below control"


def test_a_gain_of_format_is_called_one():
    """The same answers, now in the format that was asked for: the lenient score did not move."""
    _, text = claims_of(["ffww"] * 120, ["ccww"] * 120)
    assert "The gain of policy over base is in format only" in text


def test_nothing_solved_claims_nothing():
    """No further sentence compares zero with zero."""
    title, text = claims_of(["wwww"] * 20, ["wwww"] * 20, ["wwww"] * 20)
    assert title == "Nothing was solved, so nothing is claimed."
    assert "points" not in text


def test_what_is_solved_at_one_temperature_alone_is_said():
    """Nothing at the first: its differences of zero and zero are in no further sentence."""
    nothing = {name: groups_of(["wwww"] * 60) for name in ("base", "trained")}
    solved = {
        ("base", 0.2): groups_of(["cwww"] * 60),
        ("trained", 0.2): groups_of(["cccw"] * 60),
    }
    params = params_of(ks=(1, 2), control=False, further=[0.2])
    title, *claims = invented(nothing | solved, params)[0].claims
    text = " ".join(claims).replace("\N{NO-BREAK SPACE}", " ")
    assert title == "No significant gain of policy (T = 1) over base (T = 1) in pass@1"
    assert "pass@1 of policy (T = .2) is 75.0 %, of base (T = .2) 25.0 %" in text
    assert text.count(": 0.0 points,") == 1


RISE = {"base": ["cwww", "ccww"] * 60, "trained": ["cccw", "cccc"] * 60}
STILL = {"base": ["cccw"] * 120, "trained": ["cccw", "ccwc"] * 60}


@pytest.mark.parametrize(
    ("first", "further", "temperature", "is_sharper"),
    [
        (RISE, STILL, 0.2, True),
        (RISE, STILL, 1.5, False),
        (RISE, RISE, 0.2, False),
        (STILL, RISE, 0.2, False),
    ],
)
def test_a_gain_that_is_missing_at_a_lower_temperature_can_be_sharpness(
    first, further, temperature, is_sharper
):
    """A sharper policy gains at the higher temperature, not at the lower one; arms name their temperature."""
    groups = {name: groups_of(letters) for name, letters in first.items()}
    groups |= {(name, temperature): groups_of(letters) for name, letters in further.items()}
    params = params_of(ks=(1, 2), control=False, further=[temperature])
    study = invented(groups, params)[0]
    text = " ".join(study.claims)
    assert ("sharper distribution" in text) is is_sharper
    assert study.headline.arm == "policy T=1"
    assert f"policy T={temperature:g}".replace("=0.", "=.") in [one.name for one in study.arms]


def test_a_further_set_has_figures_and_a_sentence_of_its_own():
    """A loss there changes neither the title nor the sentences about the test split."""
    gain = {"base": ["cwww"] * 60, "control": ["cwww"] * 60, "trained": ["cccw"] * 60}
    loss = {"base": ["cccw"] * 60, "control": ["ccww"] * 60, "trained": ["cwww"] * 60}
    groups = {name: groups_of(letters) for name, letters in gain.items()}
    alone, _ = invented(groups, params_of(ks=(1, 2)))
    groups |= {f"aime24/{name}": groups_of(letters) for name, letters in loss.items()}
    study, series = invented(groups, params_of(ks=(1, 2), sets=["aime24"]))
    assert study.claims[: len(alone.claims)] == alone.claims
    [sentence] = study.claims[len(alone.claims) :]
    assert "pass@1 on aime24 of policy is 25.0 %, of control 50.0 %" in sentence.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert sentence.endswith("significantly lower.")
    own = [one for one in study.points if one.set == "aime24"]
    assert {one.arm for one in own} == {"base", "control", "policy"}
    assert [one for one in study.points if one.set == "main"] == [*alone.points]
    assert {one.set for one in series} == {"main", "aime24"}
