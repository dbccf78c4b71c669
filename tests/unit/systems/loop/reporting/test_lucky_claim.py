"""A claim like "7 of 20 to 11 of 20", from answers to the page: no way to read a gain out of it."""

import json

import pytest

from flows.cli.app import main
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.systems.loop.report import write_report
from pipeline_lib.verify.lines import groups_from_lines
from tests.unit.systems.loop.invented_study import finished_run, params_of
from tests.unit.systems.loop.reporting.html_page import Page

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
    """Real answers, judged, compared, written: the title, the sentences and the table all say the same."""
    base, trained = (groups_from_lines(path, VerifyParams()) for path in answers)
    run = finished_run({"base": base, "trained": trained}, params_of(control=False))
    text = write_report(run, tmp_path, revision={}).read_text(encoding="utf-8")
    page = Page(text)
    assert "<title>No significant gain of policy over base in pass@1</title>" in text
    assert page.heading == "No significant gain of policy over base in pass@1"
    words = " ".join(page.text.split())
    assert "pass@1 of policy is 55.0 %, of base 35.0 %, on the same 20 problems: +20.0" in words
    assert "With 20 problems and one training of each, differences below about" in words
    assert words.count("no significant gain") >= 2
    assert " gains " not in words


def test_the_command_says_it_too(answers, capsys):
    """`reasonloop evaluate NEW --against OLD` ends with the same sentence."""
    base, trained = map(str, answers)
    with pytest.raises(SystemExit) as stopped:
        main(["evaluate", trained, "--against", base, "--workers", "1", "--set", "evaluate.ks=[1]"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "No significant gain of policy over base in pass@1" in printed
    assert "gains" not in printed
