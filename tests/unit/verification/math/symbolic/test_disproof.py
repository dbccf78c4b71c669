"""Values at a point: they settle only what math-verify would call different after long work."""

import itertools
import json
import math

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from math_verify import parse, verify

from pipeline_lib.verification.math.symbolic.disproof import differ_numerically

x, y = sympy.symbols("x y", real=True)
COEFFICIENTS = st.lists(st.integers(-9, 9), min_size=1, max_size=5)


def _formula(text):
    """The formula that math-verify parses from ``text``."""
    (expression,) = _formulas(text)
    return expression


def _formulas(text):
    return parse(f"${text}$", fallback_mode="no_fallback", parsing_timeout=None)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("x^2-1", "x^2+1"),
        ("2\\sqrt{3}", "\\sqrt{11}"),
        ("3\\cot x", "\\frac{3}{\\cos x}"),
        ("2^{25} \\cdot 26!", "2^{24} \\cdot 26!"),
        ("\\ln 9", "2\\ln 4"),
        ("5", "(x+y+z+w+a+b+c)^{60}"),
        ("\\sqrt{2}", "1.41"),
    ],
)
def test_different_values(left, right):
    """Roots, powers, logarithms, factorials: another value somewhere is another formula."""
    assert differ_numerically(_formula(left), _formula(right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("x^2-1", "(x-1)(x+1)"),
        ("2\\sqrt{3}", "\\sqrt{12}"),
        ("\\cot x", "\\frac{1}{\\tan x}"),
        ("\\frac{1}{3}", "0.333333"),
        ("42!", f"{math.factorial(42)}.0"),
        ("\\int x dx", "5x"),
        ("9\\%", "9"),
        ("\\text{even}", "x"),
        ("(1, 2)", "(1, 3)"),
        ("x=5", "x=6"),
        ("\\infty", "5"),
        ("\\frac{x}{0}", "5"),
        ("f(x)", "5x"),
        ("|x|", "-x-1"),
    ],
)
def test_nothing_is_said(left, right):
    """Equal or nearly equal values, and what is no formula of numbers and symbols."""
    assert not differ_numerically(_formula(left), _formula(right))


@given(COEFFICIENTS, COEFFICIENTS)
def test_a_product_is_what_it_expands_to(left, right):
    """Two ways to write a polynomial differ nowhere; one more does everywhere."""
    product = sympy.Poly(left, x).as_expr() * (sympy.Poly(right, x).as_expr() + y)
    assert not differ_numerically(sympy.expand(product), product)
    assert differ_numerically(sympy.expand(product) + 1, product + 2)


def test_math_verify_agrees_on_published_golds(data_folder):
    """Of MATH-500 golds beside each other, none that is surely different counts as equal."""
    lines = (data_folder / "math500" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    golds = [json.loads(line)["answer"] for line in lines]
    formulas = [formula for gold in golds for formula in _formulas(gold)]
    pairs = [pair for pair in itertools.pairwise(formulas) if differ_numerically(*pair)]
    assert len(pairs) > 0.5 * len(golds)
    assert [pair for pair in pairs if verify(*pair, timeout_seconds=None)] == []
