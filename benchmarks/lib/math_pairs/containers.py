r"""Generated pairs for the math verifier: containers and notations."""

import itertools
from collections.abc import Iterator

from benchmarks.lib.math_pairs.pair import Pair, boxed, right_pairs, wrong_pairs

ELEMENTS = (("1", "2"), ("1", "2", "3"), ("-1", "\\sqrt{2}", "5"), ("\\frac{1}{2}", "4"))
ORDERED = (("(", ")"), ("\\left(", "\\right)"), ("\\langle ", "\\rangle "))
UNORDERED = (("\\{", "\\}"), ("\\left\\{", "\\right\\}"))


def containers() -> Iterator[Pair]:
    """Order matters in tuples, not in sets; the kind of container matters."""
    for elements in ELEMENTS:
        listed, turned = ", ".join(elements), ", ".join(elements[::-1])
        for left, right in ORDERED:
            yield f"({listed})", boxed(f"{left}{listed}{right}"), True
            yield f"({listed})", boxed(f"{left}{turned}{right}"), False
            yield f"{left}{listed}{right}", boxed(f"\\{{{listed}\\}}"), False
            yield f"\\{{{listed}\\}}", boxed(f"{left}{listed}{right}"), False
            yield f"\\{{{listed}\\}}", boxed(f"{left}{turned}{right}"), False
        for left, right in UNORDERED:
            yield f"\\{{{listed}\\}}", boxed(f"{left}{turned}{right}"), True
            yield listed, boxed(f"{left}{turned}{right}"), True
            yield f"{left}{listed}{right}", boxed(turned), True
        yield listed, boxed(turned), True
        first = elements[0]
        yield listed, boxed(f"{listed}, {first}"), False
        yield f"({listed})", boxed(f"({listed}, {first})"), False
        yield f"{listed}, {first}", boxed(listed), False
        yield f"{first}, {first}", boxed(first), False
        yield first, boxed(f"{first}, {first}"), False
        yield listed, boxed(listed.rpartition(",")[0]), False
        yield f"[{listed}]", boxed(f"({listed})"), False
        yield f"({listed})", boxed(f"[{listed}]"), False


def nesting() -> Iterator[Pair]:
    """Nesting depth matters."""
    yield from wrong_pairs(*(
            ("(1,2,3)", "(1,(2,3))"), ("((1,2),3)", "(1,(2,3))"), ("((1,2),3)", "(1,2,3)"),
            ("\\{1,2\\}", "\\{\\{1\\},2\\}"),
            ("\\{\\{1,2\\}\\}", "\\{1,2\\}"), ("\\{1,2\\}", "\\{\\{1,2\\}\\}"), ("((1,2),(3,4))", "(1,2,3,4)"),
            ("(1,2),(3,4)", "(1,2,3,4)"), ("(1,2),(3,4)", "(1,3),(2,4)"), ("(1,2),(3,4)", "1,2,3,4"),
            ("(1,2),(3,4)", "(2,1),(4,3)"), ("\\{(1,2),(3,4)\\}", "\\{(1,2,3,4)\\}"),
            ("\\{\\emptyset\\}", "\\emptyset"),
            ("\\emptyset", "\\{\\emptyset\\}"), ("\\{0\\}", "\\emptyset"), ("\\{\\{1\\},\\{2\\}\\}", "\\{1,2\\}"),
            ("(1,\\{2,3\\})", "(1,(2,3))"), ("(0,9) \\cup (9,36)", "(0,9), (9,36)"),
        ),
    )  # fmt: skip
    yield from right_pairs(*(
            ("(1,2),(3,4)", "(3,4),(1,2)"), ("\\{(1,2),(3,4)\\}", "(3,4),(1,2)"), ("((1,2),3)", "((1, 2), 3)"),
            ("(1,\\{2,3\\})", "(1,\\{3,2\\})"), ("(1,2),(3,4)", "(1,2)\\text{ and }(3,4)"),
            ("\\{\\{1\\},\\{2\\}\\}", "\\{\\{2\\},\\{1\\}\\}"),
        ),
    )  # fmt: skip


def conjunctions() -> Iterator[Pair]:
    """Conjunctions and disjunctions differ."""
    for one, other in (("1", "2"), ("3", "\\sqrt{5}"), ("x=1", "x=4"), ("-1", "7")):
        for first, second in (("and", "or"), ("or", "and")):
            yield (
                f"{one} \\text{{ {first} }} {other}",
                boxed(f"{one} \\text{{ {second} }} {other}"),
                False,
            )
            yield f"{one}\\text{{ {first} }}{other}", boxed(f"{one} {second} {other}"), False
            yield (
                f"{one} \\text{{ {first} }} {other}",
                boxed(f"{other} \\text{{ {first} }} {one}"),
                True,
            )
            yield f"{one}, {other}", boxed(f"{one} \\text{{ {first} }} {other}"), True
            yield one, boxed(f"{one} \\text{{ {first} }} {other}"), False
            yield other, boxed(f"{one} \\text{{ {first} }} {other}"), False
    yield from wrong_pairs(*(
            ("x<1 \\text{ or } x>3", "x<1 \\text{ and } x>3"),
            ("(-\\infty,1)\\cup(3,\\infty)", "(-\\infty,1)\\cap(3,\\infty)"),
            ("x>1\\text{ and }x<3", "x>1\\text{ or }x<3"), ("A \\cup B", "A \\cap B"), ("p \\land q", "p \\lor q"),
        ),
    )  # fmt: skip


def refused_right() -> Iterator[Pair]:
    """Right answers in rarer notations."""
    intervals = (
        ("(2,\\infty)", "x > 2"), ("x > 2", "(2,\\infty)"), ("[2,\\infty)", "x \\ge 2"),
        ("(-\\infty,0]", "x \\leq 0"),
        ("x \\in [-2,7]", "-2 \\le x \\le 7"), ("-2 \\le x \\le 7", "x \\in [-2,7]"), ("[-2,7]", "x \\in [-2, 7]"),
        ("(3,4]", "3 < x \\le 4"), ("3 < x \\le 4", "(3,4]"), ("(0,9)\\cup(9,36)", "0<x<9 \\text{ or } 9<x<36"),
        ("x<1\\text{ or }x>3", "(-\\infty,1)\\cup(3,\\infty)"), ("x \\ge 5", "5 \\le x"),
        ("x>\\sqrt{2}", "(\\sqrt{2},\\infty)"),
        ("(-\\sqrt{3},\\sqrt{3})", "-\\sqrt{3}<x<\\sqrt{3}"), ("[1,3]", "1 \\leqslant t \\leqslant 3"),
        ("(-\\infty,\\infty)", "\\mathbb{R}"), ("\\text{all real numbers}", "\\mathbb{R}"),
        ("(2,\\infty)", "\\{x : x > 2\\}"), ("(2,\\infty)", "\\{x \\mid x > 2\\}"),
        ("x \\ne 3", "(-\\infty,3)\\cup(3,\\infty)"),
        ("(-1,1)", "|x|<1"), ("[-3,3]", "|x| \\le 3"), ("(-\\infty,-2)\\cup(2,\\infty)", "|x|>2"),
        ("(2, \\infty)", "(2, +\\infty)"), ("x \\in (2,\\infty)", "x > 2"), ("x>2", "2<x"),
    )  # fmt: skip
    empty = tuple(itertools.permutations(("\\varnothing", "\\emptyset", "\\{\\}", "∅"), 2))
    repeating = (
        ("\\frac{1}{3}", "0.\\overline{3}"), ("0.\\overline{3}", "\\frac{1}{3}"), ("0.\\overline{27}", "3/11"),
        ("\\frac{7}{6}", "1.1\\overline{6}"),
        ("0.\\overline{3}", "0.\\bar{3}"), ("0.\\overline{3}", "0.333..."), ("\\frac{1}{3}", "0.333\\ldots"),
        ("0.\\overline{142857}", "\\frac{1}{7}"),
        ("\\frac{1}{6}", "0.1\\overline{6}"), ("1/3", "0.\\dot{3}"), ("-\\frac{1}{3}", "-0.\\overline{3}"),
        ("1", "0.\\overline{9}"),
    )  # fmt: skip
    approximate = (
        ("3.14", "\\approx 3.14"), ("3.14", "x \\approx 3.14"), ("\\approx 3.14", "3.14"),
        ("1.414214", "\\sqrt{2} \\approx 1.414214"),
        ("\\sqrt{2}", "\\sqrt{2} \\approx 1.414"), ("42", "\\approx 42\\text{ cm}"), ("17", "\\thickapprox 17"),
    )  # fmt: skip
    yield from right_pairs(*intervals + empty + repeating + approximate)
    yield from wrong_pairs(*(
            ("(2,\\infty)", "x \\ge 2"), ("[2,\\infty)", "x > 2"), ("x > 2", "x < 2"), ("x > 2", "(-\\infty,2)"),
            ("(3,4]", "3 \\le x < 4"),
            ("-2 \\le x \\le 7", "-2 < x < 7"), ("x>2", "y>2"), ("x \\ge 2", "x = 2"), ("2", "x > 2"),
            ("2", "x \\ge 2"), ("(2,\\infty)", "2"),
            ("\\frac{1}{3}", "0.3"), ("0.\\overline{3}", "0.3"), ("0.\\overline{3}", "0.\\overline{33}4"),
            ("0.\\overline{27}", "0.2\\overline{7}"),
            ("0.3", "0.\\overline{3}"), ("3.14", "\\approx 3.15"), ("0", "\\varnothing"), ("\\emptyset", "0"),
            ("\\emptyset", "\\{0\\}"),
            ("x<1\\text{ or }x>3", "(1,3)"), ("[-2,7]", "x \\in (-2,7)"), ("0.\\overline{12}", "0.\\overline{21}"),
            ("\\frac{1}{7}", "0.142857..."),
        ),
    )  # fmt: skip


CLASSES = (
    containers,
    nesting,
    conjunctions,
    refused_right,
)
