r"""Families of LaTeX answers that are hard to compare.

A family maps a number to a gold, an equivalent form, and two wrong values. All questions of a set
are distinct, the right verdicts are known, and only the fractions can be decided by exact
arithmetic.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A gold, an equivalent form, and two wrong values."""

    gold: str
    equivalent: str
    wrong: tuple[str, str]


def _product(n: int) -> Member:
    m = n + 3
    return Member(
        gold=f"x^2-{m - n}x-{n * m}",
        equivalent=f"(x+{n})(x-{m})",
        wrong=(f"(x-{n})(x+{m})", f"x^2-{m - n}x-{n * m + 1}"),
    )


def _fraction(n: int) -> Member:
    return Member(
        gold=f"\\frac{{{2 * n + 1}}}{{8}}",
        equivalent=f"{(2 * n + 1) / 8}",
        wrong=(f"\\frac{{{2 * n + 1}}}{{9}}", f"{(2 * n + 2) / 8}"),
    )


def _root(n: int) -> Member:
    return Member(
        gold=f"{n}\\sqrt{{{n * n + 1}}}",
        equivalent=f"\\sqrt{{{n * n * (n * n + 1)}}}",
        wrong=(f"\\sqrt{{{n * n * (n * n + 1) + 1}}}", f"{n + 1}\\sqrt{{{n * n + 1}}}"),
    )


def _denominator(n: int) -> Member:
    return Member(
        gold=f"\\frac{{{n}\\sqrt{{3}}}}{{3}}",
        equivalent=f"\\frac{{{n}}}{{\\sqrt{{3}}}}",
        wrong=(f"\\frac{{{n}}}{{\\sqrt{{2}}}}", f"\\frac{{{n + 1}\\sqrt{{3}}}}{{3}}"),
    )


def _tuple(n: int) -> Member:
    return Member(
        gold=f"\\left( {n}, \\frac{{{2 * n + 1}}}{{4}}, -{n + 1} \\right)",
        equivalent=f"({n}, {(2 * n + 1) / 4}, {-n - 1})",
        wrong=(
            f"({n}, {(2 * n + 1) / 4}, {n + 1})",
            f"(\\frac{{{2 * n + 1}}}{{4}}, {n}, {-n - 1})",
        ),
    )


def _polar(n: int) -> Member:
    return Member(
        gold=f"\\left( {n}, \\frac{{{n}\\pi}}{{7}} \\right)",
        equivalent=f"({n}, {n}\\pi/7)",
        wrong=(f"({n}, {n}\\pi/5)", f"({n + 1}, \\frac{{{n}\\pi}}{{7}})"),
    )


def _set(n: int) -> Member:
    return Member(
        gold=f"\\{{{n}, {2 * n + 3}, \\sqrt{{{n + 1}}}\\}}",
        equivalent=f"\\{{\\sqrt{{{n + 1}}}, {2 * n + 3}, {n}\\}}",
        wrong=(f"\\{{{n}, {2 * n + 4}, \\sqrt{{{n + 1}}}\\}}", f"\\{{{n}, {2 * n + 3}\\}}"),
    )


def _list(n: int) -> Member:
    return Member(
        gold=f"-{n}, {n + 1}, {3 * n + 2}",
        equivalent=f"{3 * n + 2}, -{n}, {n + 1}",
        wrong=(f"{3 * n + 3}, -{n}, {n + 1}", f"{n}, {n + 1}, {3 * n + 2}"),
    )


def _interval(n: int) -> Member:
    return Member(
        gold=f"\\left[ -{n}, \\frac{{{n}}}{{3}} \\right)",
        equivalent=f"-{n} \\le x < \\frac{{{n}}}{{3}}",
        wrong=(
            f"-{n} \\le x \\le \\frac{{{n}}}{{3}}",
            f"\\left( -{n}, \\frac{{{n}}}{{3}} \\right)",
        ),
    )


def _union(n: int) -> Member:
    return Member(
        gold=f"(-\\infty, {n}) \\cup ({n + 2}, \\infty)",
        equivalent=f"({n + 2}, \\infty) \\cup (-\\infty, {n})",
        wrong=(f"(-\\infty, {n}) \\cup ({n + 3}, \\infty)", f"({n}, {n + 2})"),
    )


def _complex(n: int) -> Member:
    return Member(
        gold=f"{n}-{n + 2}i",
        equivalent=f"-{n + 2}i+{n}",
        wrong=(f"{n}+{n + 2}i", f"{n + 2}-{n}i"),
    )


def _plus_minus(n: int) -> Member:
    root = f"\\sqrt{{{n * n + 2}}}"
    return Member(
        gold=f"{n} \\pm {root}",
        equivalent=f"{n}-{root}, {n}+{root}",
        wrong=(f"{n}-{root}", f"{n + 1}-{root}, {n + 1}+{root}"),
    )


def _vector(n: int) -> Member:
    return Member(
        gold=f"\\begin{{pmatrix}} -{n} \\\\ \\frac{{{n}}}{{2}} \\\\ {n + 1} \\end{{pmatrix}}",
        equivalent=f"\\begin{{bmatrix}}-{n}\\\\{n / 2}\\\\{n + 1}\\end{{bmatrix}}",
        wrong=(
            f"\\begin{{bmatrix}}-{n}\\\\{n / 2 + 1}\\\\{n + 1}\\end{{bmatrix}}",
            f"\\begin{{pmatrix}} -{n} \\\\ {n + 1} \\end{{pmatrix}}",
        ),
    )


def _line(n: int) -> Member:
    return Member(
        gold=f"y = {n}x + {n + 1}",
        equivalent=f"y = {n + 1} + {n}x",
        wrong=(f"y = {n}x - {n + 1}", f"y = {n + 1}x + {n}"),
    )


def _trigonometric(n: int) -> Member:
    return Member(
        gold=f"{n} \\cot x",
        equivalent=f"\\frac{{{n}}}{{\\tan x}}",
        wrong=(f"\\frac{{{n}}}{{\\cos x}}", f"{n} \\tan x"),
    )


def _circle(n: int) -> Member:
    return Member(
        gold=f"{n}+{2 * n}\\pi",
        equivalent=f"{n}(1+2\\pi)",
        wrong=(f"{n}(2+\\pi)", f"{n}+{2 * n + 1}\\pi"),
    )


def _quotient(n: int) -> Member:
    return Member(
        gold=f"\\frac{{{n}a+{2 * n + 1}}}{{{n + 4}}}",
        equivalent=f"\\frac{{{n}}}{{{n + 4}}}a+\\frac{{{2 * n + 1}}}{{{n + 4}}}",
        wrong=(f"\\frac{{{n}a-{2 * n + 1}}}{{{n + 4}}}", f"\\frac{{{n}a+{2 * n + 1}}}{{{n + 5}}}"),
    )


def _logarithm(n: int) -> Member:
    return Member(
        gold=f"\\ln {n * n}",
        equivalent=f"2\\ln {n}",
        wrong=(f"2\\ln {n + 1}", f"\\ln {n * n + 1}"),
    )


def _power(n: int) -> Member:
    return Member(
        gold=f"2^{{{n}}} \\cdot {n}!",
        equivalent=f"{n}! \\cdot 2^{{{n}}}",
        wrong=(f"2^{{{n + 1}}} \\cdot {n}!", f"2^{{{n}}} \\cdot {n + 1}!"),
    )


def _surd_sum(n: int) -> Member:
    return Member(
        gold=f"\\sqrt{{{n + 1}}}-{n} \\sqrt{{3}}",
        equivalent=f"-\\sqrt{{{3 * n * n}}}+\\sqrt{{{n + 1}}}",
        wrong=(f"\\sqrt{{{3 * n * n}}}-\\sqrt{{{n + 1}}}", f"\\sqrt{{{n + 1}}}-{n} \\sqrt{{2}}"),
    )


def _polynomial(n: int) -> Member:
    return Member(
        gold=f"{n}x^3 - {n + 1}x^2 + x - {2 * n}",
        equivalent=f"-{2 * n} + x - {n + 1}x^2 + {n}x^3",
        wrong=(f"{n}x^3 + {n + 1}x^2 + x - {2 * n}", f"{n}x^3 - {n + 1}x^2 + x"),
    )


FAMILIES: tuple[Callable[[int], Member], ...] = (
    _product,
    _fraction,
    _root,
    _denominator,
    _tuple,
    _polar,
    _set,
    _list,
    _interval,
    _union,
    _complex,
    _plus_minus,
    _vector,
    _line,
    _trigonometric,
    _circle,
    _quotient,
    _logarithm,
    _power,
    _surd_sum,
    _polynomial,
)
