"""Caps: what is never handed to SymPy, and what must not be capped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.verify.math.judge import cap_reason


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("((9!)!)!", "bits"),
        ("(9!)!", "bits"),
        ("10000!", "bits"),
        ("10^{10^{10}}", "bits"),
        ("9^9^9", "bits"),
        ("2^{2^{2^{2^{2}}}}", "bits"),
        ("((2^{100})^{100})^{100}", "bits"),
        ("(10^{9})!", "bits"),
        ("\\binom{1000000}{500000}", "bits"),
        ("x^{10^{9}}", "bits"),
        ("10^{" + "9" * 399 + "}", "bits"),
        ("(" * 25 + "1" + ")" * 25, "deep"),
        ("\\sqrt{" * 25 + "1" + "}" * 25, "deep"),
        ("1" * 401, "digits"),
        ("+".join(["x"] * 400), "terms"),
        (",".join("1" * 400), "elements"),
        ("\\frac{1}{" * 500 + "2" + "}" * 500, "characters"),
        ("x" * 1_000_000, "characters"),
    ],
)
def test_hostile_answers_are_capped(answer, reason):
    """Towers, factorials of factorials, deep nesting and long lists are seen from their spelling."""
    assert reason in cap_reason(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "2^{2010}",
        "7^{2023}-1",
        "100!",
        "n!",
        "(n+1)!",
        "\\binom{10}{5}",
        "2^{2^{3}}",
        "e^{x^{2}}",
        "x^{n^{m}}",
        "a^{b^{c^{d}}}",
        "2^{0.5^{0.5}}",
        "\\sum_{k=1}^{100} k",
        "x^8 + x^7 + x^6 + x^5 + x^4 + x^3 + x^2 + x + 1",
        "\\begin{pmatrix} -18 \\\\ -49 \\\\ 96 \\end{pmatrix}",
        "(-\\infty, 2) \\cup (3, \\infty)",
        "1" * 400,
        ",".join(map(str, range(119))),
        " \\\\ ".join([" & ".join("7" * 11)] * 11),
        "\\frac{1}{2^{2005}}",
        "^",
        "!",
        ")(",
    ],
)
def test_honest_answers_are_not_capped(answer):
    """Answers of competition data pass, and so does nonsense that costs nothing."""
    assert cap_reason(answer) is None


@given(st.integers(2, 99), st.integers(2, 99))
def test_the_bound_is_above_the_value(base, exponent):
    """A number within the cap passes as a power only if its bits do: b^e <= 2^(bits(b) * e)."""
    power = f"{base}^{{{exponent * 1000}}}"
    if (base ** (exponent * 1000)).bit_length() > 40_000:
        assert cap_reason(power) is not None


@given(st.text(alphabet="0123456789^!(){}[]+-x\\ "))
def test_the_estimate_is_total(answer):
    """No arrangement of powers, factorials and brackets raises."""
    cap_reason(answer)
