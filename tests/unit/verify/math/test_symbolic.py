"""Formulas: read as by math-verify, if that minds letter case; equal by proof, different at a point, or open."""

import json
import math

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, _Latex2Sympy
from sympy import Float, Rational, srepr

from pipeline_lib.verify.math.symbolic.balls import ball, separation_bits
from pipeline_lib.verify.math.symbolic.equality import parse_formula
from pipeline_lib.verify.math.symbolic.grammar import QuickReader
from pipeline_lib.verify.math.symbolic.values import same_object, same_value

LEXEMES = ("1", "23", "0.5", "1,000", "x", "y", "+", "-", "*", "/", "^", "_", "=", "<", "!", "|")
LEXEMES += ("(", ")", "[", "]", "{", "}", ",", ";", " ", "&", "$", "\\\\", "\\{", "\\}", "\\%")
LEXEMES += ("\\frac", "\\sqrt", "\\pi", "\\infty", "\\cup", "\\in", "\\le", "\\pm", "\\cdot")
LEXEMES += ("\\sin", "\\log", "\\binom", "\\text{a}", "\\begin{pmatrix}", "\\end{pmatrix}", "\\20")


CASED = ConversionConfig(lowercase_symbols=False)


def _read(reader, text):
    """The full result of ``reader`` on ``text``; None if it refuses."""
    try:
        parsed = reader(is_real=True, config=CASED).parse(text)
        # math-verify's decimals are binary; here they are exact. To replace one evaluates the nodes above it.
        exact = parsed.xreplace({f: Rational(str(f)) for f in parsed.atoms(Float)})
        return srepr(exact.replace(lambda node: node.args, lambda node: node.func(*node.args)))
    except Exception:  # noqa: BLE001 - whatever it refuses by
        return None


@pytest.mark.parametrize(
    "text",
    [
        "1,2",
        "1,234",
        "007",
        "1,2,3,-4",
        "0.50",
        "1.5x",
        "2\\frac{1}{2}",
        "(1, 2]",
        "[1, 2) \\cup (3, \\infty)",
        "\\{1, \\frac{1}{2}, \\sqrt{3}\\}",
        "(x+1)(x-1) = x^2-1",
        "1 < x \\le 2",
        "x \\in [-2,7]",
        "1 \\pm \\sqrt{19}",
        "\\begin{pmatrix} 1 \\\\ -2 \\end{pmatrix}",
        "\\int_0^1 x dx",
        "\\sum_{k=1}^{n} k",
        "f(x) = |x|!",
        "4210_{5}",
    ],
)
def test_formulas_are_read_the_same(text):
    """Numbers, tuples, sets, intervals, relations, matrices: the same expression to the last node."""
    assert _read(_Latex2Sympy, text) is not None
    assert _read(QuickReader, text) == _read(_Latex2Sympy, text)


@pytest.mark.parametrize(
    "text", ["", "\\frac{", "1 +", ")(", "2 \\times 10 = \\20", "5\\star1", "8 \\text{"]
)
def test_what_is_no_formula_is_refused(text):
    """Neither an error of the parser nor one of the lexer is read over at the second try."""
    assert _read(_Latex2Sympy, text) is None
    assert _read(QuickReader, text) is None


@given(st.lists(st.sampled_from(LEXEMES), max_size=8).map("".join))
def test_any_text_is_read_the_same(text):
    """Whatever the lexemes and their order: the same expression, or none at all."""
    assert _read(QuickReader, text) == _read(_Latex2Sympy, text)


def test_golds_of_published_data_are_read_the_same(data_folder):
    """All golds of MATH-500 and of HMMT."""
    golds = []
    for name in ("math500", "hmmt25"):
        lines = (data_folder / name / "test.jsonl").read_text(encoding="utf-8").splitlines()
        golds += [str(json.loads(line)["answer"]) for line in lines]
    assert [g for g in golds if _read(QuickReader, g) != _read(_Latex2Sympy, g)] == []


@pytest.mark.parametrize("text", ["X", "3R^2", "\\Delta", "F(x)", "A_1"])
def test_capital_letters_stay(text):
    """math-verify calls its reader with the letters made small; this one keeps them."""
    assert srepr(QuickReader(is_real=True).parse(text)) != srepr(
        QuickReader(is_real=True).parse(text.lower())
    )


x, y = sympy.symbols("x y", real=True)
COEFFICIENTS = st.lists(st.integers(-9, 9), min_size=1, max_size=5)
SQUAREFREE = st.sampled_from([2, 3, 5, 6, 7, 10, 11])


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("x=\\ln y", "y=e^x", True),
        ("xy=2", "y=\\frac{2}{x}", True),
        ("xy=2", "y=\\frac{x}{2}", False),
        ("x+y<2", "2x+2y<4", True),
        ("x+y<2", "-x-y<-2", False),
        ("x=1", "y=1", False),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1.0\\\\2\\end{pmatrix}", True),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1&2\\end{pmatrix}", False),
        ("i", "1i", True),
        ("\\sqrt{x}", "\\sqrt{x^2}", False),
        ("\\int_0^1 x dx", "\\frac{1}{2}", True),
        ("\\zeta", "\\eta", False),
    ],
)
def test_relations_matrices_and_formulas(left, right, same):
    """Equations up to a factor, inequalities up to a positive one, matrices by their elements."""
    assert same_object(parse_formula(left)[0], parse_formula(right)[0]) is same


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        ("3", "\\frac{1}{0}", False),
        ("3", "2+\\frac{1}{0}", False),
        ("x^2", "\\frac{x}{0}", False),
        ("3", "\\log(0)", False),
        ("\\frac{1}{0}", "3", None),
        ("3", "\\infty", False),
        ("\\infty", "-\\infty", False),
        ("\\infty", "\\sum_{n=1}^{\\infty} \\frac{1}{n}", None),
        ("\\infty", "\\infty", True),
    ],
)
def test_an_answer_without_a_value_is_wrong(gold, answer, same):
    """Division by zero is no way to a null score; a gold without a value decides nothing."""
    assert same_object(parse_formula(gold)[0], parse_formula(answer)[0]) is same


@settings(max_examples=30, deadline=None)
@given(COEFFICIENTS, COEFFICIENTS)
def test_a_product_is_what_it_expands_to(left, right):
    """Two ways to write a polynomial are equal; one more is not, however small."""
    product = sympy.Poly(left, x).as_expr() * (sympy.Poly(right, x).as_expr() + y)
    assert same_value(sympy.expand(product), product)
    assert same_value(sympy.expand(product) + sympy.Rational(1, 10**50), product) is False


@settings(max_examples=30, deadline=None)
@given(SQUAREFREE, SQUAREFREE, st.integers(1, 40), st.integers(20, 400))
def test_roots_are_equal_by_proof_and_different_by_any_amount(a, b, n, digits):
    """(sqrt a + sqrt b)^2 n = n (a + b + 2 sqrt(ab)); 10^-digits more is another number."""
    left = n * (sympy.sqrt(a) + sympy.sqrt(b)) ** 2
    right = n * (a + b) + 2 * sympy.sqrt(a * b * n * n)
    assert same_value(left, right)
    assert same_value(left, right + sympy.Rational(1, 10**digits)) is False


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(-30, 30), SQUAREFREE), min_size=1, max_size=3))
def test_no_number_is_closer_to_zero_than_its_bound(terms):
    """The separation bound holds for sums of roots minus the nearest integer, and quotients of them."""
    total = sum(n * sympy.sqrt(a) for n, a in terms)
    number = (total - round(float(total))) / (1 + sympy.sqrt(2))
    if sympy.expand(number) != 0:
        assert abs(complex(sympy.N(number, 30))) >= 2.0 ** -separation_bits(number)


@given(st.integers(1, 200), st.sampled_from([64, 256]))
def test_a_ball_holds_its_value(n, bits):
    """The ball of a root holds the number whose square is known, and has the promised size."""
    value = ball(sympy.sqrt(n), {}, bits=bits)
    root = math.isqrt(n << (4 * bits))
    assert value.contains(0) is False
    assert (
        abs(int((value.real.mid() * 2**40).floor().unique_fmpz()) - (root >> (2 * bits - 40))) <= 1
    )
    assert value.real.rad() < 2.0 ** (8 - bits)
