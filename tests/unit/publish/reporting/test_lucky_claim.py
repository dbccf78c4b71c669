"""A claim like "7 of 20 to 11 of 20", from answers to the page: no way to read a gain out of it."""

import dataclasses
import json

import pytest

from flows.cli.app import main
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.publish.reporting.report import write_report
from pipeline_lib.study.result import evaluate_policies
from pipeline_lib.verify.lines.files import groups_from_lines
from tests.unit.publish.exports.finished_policies import finished
from tests.unit.publish.reporting.page import Page

RIGHT, WRONG = "so \\boxed{7}", "so \\boxed{8}"
BASE = [True] * 7 + [False] * 13
TRAINED = {
    "four gained, none lost": [True] * 11 + [False] * 9,
    "seven gained, three lost": [False] * 3 + [True] * 11 + [False] * 6,
}


def write_answers(path, rights):
    rows = [
        {"problem_id": f"p{index:02}", "gold": "7", "text": RIGHT if right else WRONG}
        for index, right in enumerate(rights)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(params=TRAINED.values(), ids=TRAINED.keys())
def answers(request, tmp_path):
    return (
        write_answers(tmp_path / "base.jsonl", BASE),
        write_answers(tmp_path / "trained.jsonl", request.param),
    )


def test_the_report_says_no_significant_gain(answers, tmp_path):
    """Real answers, judged, compared, written: the title, the tile and the table all say the same."""
    base, trained = (groups_from_lines(path, VerifyParams()) for path in answers)
    result = evaluate_policies(base, trained, EvaluateParams(ks=(1,)), seed=7)
    bare = finished(["cc"], ["cc"], ks=(1,))
    source = dataclasses.replace(
        bare, result=result, base_groups=base, trained_groups=trained, training_log=[]
    )
    text = write_report(source, tmp_path).report.read_text(encoding="utf-8")
    page = Page(text)
    assert "<title>No significant gain in pass@1, without a control</title>" in text
    assert page.heading == "No significant gain in pass@1, without a control"
    words = " ".join(page.text.split())
    assert "No significant gain: pass@1 went from 35.0 % to 55.0 % (+20.0 points" in words
    assert "With only 20 problems, differences below about" in words
    assert "rose" not in words
    assert words.count("no significant gain") >= 3
    assert "gain" not in words.replace("No significant gain", "").replace(
        "no significant gain", ""
    ).replace("gained", "")


def test_the_command_says_it_too(answers, capsys):
    """`reasonloop evaluate NEW --against OLD` ends with the same sentence."""
    base, trained = map(str, answers)
    with pytest.raises(SystemExit) as stopped:
        main(["evaluate", trained, "--against", base, "--workers", "1", "--set", "evaluate.ks=[1]"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "No significant gain in pass@1" in printed
    assert "rose" not in printed
