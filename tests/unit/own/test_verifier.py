"""A verifier of the user: what it says, and what is no verdict; processes, output and time."""

import logging
import pathlib
import time

import psutil
import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.kinds.own import OWN, own_gold
from pipeline_lib.params.paths import OwnLimits, VerifyParams
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.dispatch import AnswerBook, Item, open_verifier
from tests.unit.verify.processes import eventually, gone

HOSTILE = pathlib.Path(__file__).with_name("hostile.py")


def params(function="verify", *, timeout_s=30.0, **own):
    return VerifyParams(verifier=f"{HOSTILE}:{function}", own=OwnLimits(timeout_s=timeout_s, **own))


def verdicts(texts, *, gold="4", workers=1, **limits):
    with open_verifier(params(**limits), workers=workers) as verifier:
        return verifier.judge([Item(gold=own_gold(gold), text=text) for text in texts])


def test_scores():
    """True and False are 1 and 0; a number is a score that is right at 1 alone; a child process is no copy."""
    right, wrong, half, child, folder = verdicts(["4", "5", "half", "child", "folder"])
    assert (right.status, right.strict, right.lenient, right.score) == (
        Status.CORRECT,
        True,
        True,
        1,
    )
    assert (wrong.status, wrong.strict, wrong.score) == (Status.WRONG, False, 0)
    assert (half.status, half.strict, half.lenient, half.score) == (Status.WRONG, False, False, 0.5)
    assert child.strict
    assert folder.strict


@pytest.mark.parametrize(
    ("text", "status", "detail"),
    [
        ("raise", Status.VERIFIER_ERROR, "ValueError: the answer is odd (hostile.py:10)"),
        ("crash", Status.VERIFIER_ERROR, "the verifier: its process died"),
        ("exit", Status.VERIFIER_ERROR, "SystemExit: 0 (hostile.py:19)"),
        ("fork", Status.VERIFIER_ERROR, "forked: it started a copy of its process"),
        ("fork and hang", Status.VERIFIER_ERROR, "forked: it started a copy"),
        ("memory", Status.MEMORY, "MemoryError"),
        ("nan", Status.VERIFIER_ERROR, "the verifier returned NaN"),
        ("word", Status.VERIFIER_ERROR, 'the verifier returned "right"'),
        ("seven", Status.VERIFIER_ERROR, "the verifier returned 7"),
        ("object", Status.VERIFIER_ERROR, "TypeError: object is no value of JSON"),
        ("none", Status.VERIFIER_ERROR, "not scored: the verifier returned None"),
    ],
)
def test_no_verdict(text, status, detail):
    """Null with its reason, and the next text is judged."""
    first, bad, last = verdicts(["4", text, "4"])
    assert (first.strict, last.strict) == (True, True)
    assert (bad.status, bad.strict, bad.lenient, bad.score) == (status, None, None, None)
    assert detail in bad.detail


@pytest.mark.parametrize("text", ["hang", "loop"])
def test_a_deadline(text):
    """Whether it computes or waits."""
    first, bad, last = verdicts(["4", text, "4"], timeout_s=0.5)
    assert (first.strict, last.strict) == (True, True)
    assert (bad.status, bad.strict, bad.reason) == (
        Status.TIMEOUT, None, "timeout: the verifier"
    )  # fmt: skip


def test_output_goes_to_the_log(caplog, capfd):
    """100 MB of it are read and mostly dropped; the verdict counts."""
    caplog.set_level(logging.INFO)
    [verdict] = verdicts(["print"])
    assert verdict.strict
    assert "hostile.py: xxx" in caplog.text
    assert capfd.readouterr() == ("", "")


def test_any_kind_may_have_it():
    """It is given what the gold has in a line of a file."""
    with open_verifier(params()) as verifier:
        items = [Item(gold=MathGold(answer="4"), text=text) for text in ("4", "\\boxed{4}")]
        assert [one.strict for one in verifier.judge(items)] == [True, False]
    with open_verifier(params("verify_later")) as verifier:
        assert verifier.judge(items)[0].strict


def test_nothing_is_left_behind():
    """A copy that hangs goes with its parent."""
    before = psutil.Process().children(recursive=True)
    verdicts(["4", "fork and hang", "4"])
    assert eventually(
        lambda: gone([p for p in psutil.Process().children(recursive=True) if p not in before])
    )


def test_hostile_texts_do_not_hold_up_others():
    """Deadlines that are reached run beside each other."""
    texts = [*["hang"] * 4, *["4"] * 50]
    start = time.perf_counter()
    found = verdicts(texts, timeout_s=1.0, workers=2)
    assert [one.strict for one in found] == [None] * 4 + [True] * 50
    assert sum(one.seconds for one in found) < 2 * (time.perf_counter() - start) + 8


@pytest.mark.parametrize(
    ("verifier", "message"),
    [
        (None, "verify.verifier is null"),
        ("nowhere.py:verify", "no such file"),
        (f"{HOSTILE}:judge", "has no judge at its top level"),
        ("no_such_module:verify", "neither a file that ends in .py, nor an installed module"),
        ("judge", "expected FILE.py:function"),
    ],
)
def test_what_cannot_be_found(verifier, message):
    with (
        open_verifier(VerifyParams(verifier=verifier)) as opened,
        pytest.raises(BadInputError, match=message),
    ):
        opened.judge([Item(gold=own_gold(4), text="4")])


def test_a_file_that_cannot_be_imported(tmp_path):
    """One line with the cause and its place."""
    file = tmp_path / "task.py"
    file.write_text("import nothing_of_this_name\n\ndef verify(answer, text):\n    return True\n")
    with (
        open_verifier(VerifyParams(verifier=f"{file}:verify")) as opened,
        pytest.raises(BadInputError, match=r"task.py: cannot be imported: ModuleNotFoundError.*:1"),
    ):
        opened.judge([Item(gold=own_gold(4), text="4")])


def test_votes_count_the_answers_of_the_user():
    """By `verify.answer`, and by the last line without it."""
    own = params().model_copy(update={"answer": f"{HOSTILE}:answer"})
    texts = ["it is\nFOUR", "four", "a five", "none"]
    for chosen, numbers in ((own, [0, 0, 1, None]), (params(), [0, 1, 2, 3])):
        with open_verifier(chosen) as verifier:
            book = AnswerBook(kind=OWN, verifier=verifier)
            assert [book.number(text) for text in texts] == numbers
