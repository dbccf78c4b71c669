"""The quicker reading of LaTeX: what math-verify's own reading gives, if that minds letter case."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, _Latex2Sympy
from sympy import Float, Rational, srepr

from pipeline_lib.verify.math.symbolic.grammar import QuickReader

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
