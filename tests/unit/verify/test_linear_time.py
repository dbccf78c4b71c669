"""Functions that read model text in the parent process take linear time."""

import time

import pytest

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.verify.answer_text import plain
from pipeline_lib.verify.countdown import answer_form, judge
from pipeline_lib.verify.math.exact.normal_form import MAX_CHARS, normalize
from pipeline_lib.verify.math.extraction import extract
from pipeline_lib.verify.math.judge import _draft, cap_reason

COUNTDOWN = CountdownGold(numbers=(3, 5, 3), target=24)
READERS = {
    "extract": extract,
    "draft": lambda text: _draft(MathGold(answer="5"), text, []),
    "caps": lambda text: cap_reason(normalize(text)),
    "countdown": lambda text: judge(COUNTDOWN, text),
    "countdown form": answer_form,
}
FRAMES = (
    "{}",
    "\\boxed{{5{}}}",
    "\\boxed{{\\text{{1{}",
    "#### 5 {}",
    "The answer is {}",
    "0.{}",
    "x={}",
)
UNITS = (
    " ", "\n", "(", "\\(", "\\text{", "1", "1,", "1,111,", "a ", "a", "$1", "=1", "{", "\\frac{1}{", "\\frac1", "cm ",
    "not ", "####", "answer is ", "A:", "\\boxed{", "<answer>", "3+5=8,", "(3+5)*", ".", "^", "\\", "or 1 ", "\u00bc",
    "\u00b2", "1/", "'", "\\ldots", "\u00a0", "{,}1", "1 000 ", "one ", "thousand ", "1:30 ", "x=1, ", "per m ",
)  # fmt: skip
CHARS = 1_500
DOUBLED = 2.3
FLOOR_S = 0.004
"""Shorter times are noise, and no threat."""


def _cpu_s(read, text):
    """The least of three, in CPU time: what else runs on the machine is not counted."""
    times = []
    for _ in range(3):
        start = time.process_time()
        read(text)
        times.append(time.process_time() - start)
    return min(times)


def _is_linear(read, frame, unit):
    short, long = (frame.format(unit * (size // len(unit))) for size in (CHARS, 4 * CHARS))
    # Twice doubled; measured again if it seems too long, since a cache may have been cold.
    return any(
        _cpu_s(read, long) <= max(FLOOR_S, DOUBLED**2 * _cpu_s(read, short)) for _ in range(4)
    )


@pytest.mark.parametrize("name", READERS)
def test_twice_the_text_takes_at_most_2_3_times_as_long(name):
    """Every piece that a pattern may stumble over, repeated, in every frame that a rule looks for."""
    slow = [
        (frame, unit)
        for frame in FRAMES
        for unit in UNITS
        if not _is_linear(READERS[name], frame, unit)
    ]
    assert slow == []


@pytest.mark.parametrize(
    "unit",
    [
        "\u0301\u0327",
        "\u0f71\u0f72",
        "a\u0315\u0300",
        "<think>",
        "<tool_call>",
        "</s>",
        "\\boxed{}",
        "(A) ",
    ],
)
def test_two_hundred_kilobytes_are_read_within_seconds(unit):
    """NFKC alone takes 12 s for such a run of combining marks."""
    for frame in ("{}", "\\boxed{{5}} {}", "The answer is {}"):
        text = frame.format(unit * (200_000 // len(unit)))
        assert _cpu_s(lambda text: _draft(MathGold(answer="5"), text, []), text) < 3.0
        assert _cpu_s(plain, text) < 3.0


@pytest.mark.parametrize("unit", [" ", "\t", "\\ ", "~", "\\text{1"])
def test_a_box_of_nineteen_kilobytes_is_read_at_once(unit):
    """It took 26 seconds when spaces were matched at every place; a second is a thousandfold margin."""
    text = "\\boxed{5" + unit * (19_000 // len(unit)) + "}"
    assert _cpu_s(lambda box: _draft(MathGold(answer="5"), box, []), text) < 1.0


def test_nothing_behind_the_cap_is_read():
    """An answer that is equal up to the cap and longer than it is the answer up to the cap."""
    assert normalize("1" * MAX_CHARS + "2" * 1000) == "1" * MAX_CHARS
