"""HumanEval+, MBPP+, LiveCodeBench and APPS in their published formats: loaded, judged, refused."""

import json

import pytest

from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.problems.loading import load_splits
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.dispatch import Item, open_verifier
from tests.unit.problems.code_rows import FORMATS, write_rows


@pytest.fixture(scope="module")
def verifier():
    with open_verifier(VerifyParams()) as opened:
        yield opened


@pytest.mark.parametrize("form", FORMATS)
def test_right_programs_pass_and_wrong_ones_never_do(form, tmp_path, verifier):
    """20 rows; each wrong program agrees with the right one on what the question shows."""
    file, make = FORMATS[form]
    rows = make()
    write_rows(tmp_path / file, [row for row, *_ in rows])
    problems = load_splits(form.partition(",")[0], str(tmp_path))["test"]
    assert len(problems) == len({problem.question for problem in problems}) == 20
    items = [
        Item(gold=problem.gold, text=text)
        for problem, (_, *texts) in zip(problems, rows, strict=True)
        for text in texts
    ]
    verdicts = verifier.judge(items)
    right, wrong = verdicts[::2], verdicts[1::2]
    assert {(one.status, one.detail) for one in right} == {(Status.CORRECT, None)}
    assert not any(one.lenient for one in wrong)
    assert {one.status for one in wrong} <= {Status.WRONG, Status.CRASHED}, [
        one.detail for one in wrong
    ]
