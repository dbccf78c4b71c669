r"""Generated pairs for the math verifier: values that agree to many digits, and lost structure."""

import itertools
import math
from collections.abc import Iterator

from benchmarks.lib.math_pairs.pair import Pair, boxed, right_pairs, wrong_pairs


def close_values() -> Iterator[Pair]:
    """Different numbers that agree to 15 digits or more, and equal ones written otherwise."""
    for n in (20, 25, 40, 100, 300):
        yield f"1-\\frac{{1}}{{{n}!}}", boxed(f"1-\\frac{{1}}{{{n + 1}!}}"), False
        yield f"1-\\frac{{1}}{{{n}!}}", boxed(f"\\frac{{{n}!-1}}{{{n}!}}"), True
        yield f"\\sqrt{{10^{{{2 * n}}}+1}}", boxed(f"10^{{{n}}}"), False
        yield f"\\sqrt{{10^{{{2 * n}}}}}", boxed(f"10^{{{n}}}"), True
        yield "e", boxed(f"\\sum_{{k=0}}^{{{n}}}\\frac{{1}}{{k!}}"), False
        yield f"\\sum_{{k=0}}^{{{n}}}2^k", boxed(f"2^{{{n + 1}}}-1"), True
        yield f"\\sum_{{k=0}}^{{{n}}}2^k", boxed(f"2^{{{n + 1}}}"), False
    for a, b in ((2, 3), (3, 8), (4, 15), (5, 24), (7, 48)):
        for n in (30, 50, 80):
            gold = f"({a}+\\sqrt{{{b}}})^{{{n}}}"
            yield gold, boxed(f"{gold}+({a}-\\sqrt{{{b}}})^{{{n}}}"), False
            yield gold, boxed(f"\\frac{{1}}{{({a}-\\sqrt{{{b}}})^{{{n}}}}}"), True
    yield from wrong_pairs(
        ("e^{\\pi\\sqrt{163}}", "262537412640768744"),
        ("\\pi", "3.14159265358979323846264338327950289"),
        ("\\sqrt{2}+10^{-40}", "\\sqrt{2}"),
        ("(x+10^{-30})^2", "x^2"),
        ("x+\\frac{1}{50!}", "x"),
        ("\\{1-10^{-20}\\}", "\\{1\\}"),
        ("(1, 1-\\frac{1}{30!})", "(1, 1)"),
        ("y=x+10^{-20}", "y=x"),
    )


def equal_numbers() -> Iterator[Pair]:
    """Nested roots, angles, logarithms: equal by algebra, in other forms; the next one is wrong."""
    for a, b in itertools.combinations((2, 3, 5, 7), 2):
        nested = f"\\sqrt{{{a + b}+2\\sqrt{{{a * b}}}}}"
        yield nested, boxed(f"\\sqrt{{{a}}}+\\sqrt{{{b}}}"), True
        yield nested, boxed(f"\\sqrt{{{a}}}-\\sqrt{{{b}}}"), False
        quotient = f"\\frac{{1}}{{\\sqrt{{{b}}}-\\sqrt{{{a}}}}}"
        yield quotient, boxed(f"\\frac{{\\sqrt{{{b}}}+\\sqrt{{{a}}}}}{{{b - a}}}"), True
        yield f"\\ln {a * b}", boxed(f"\\ln {a}+\\ln {b}"), True
        yield f"\\ln {a + b}", boxed(f"\\ln {a}+\\ln {b}"), False
        yield f"\\log_{{{a}}} {b}", boxed(f"\\frac{{\\ln {b}}}{{\\ln {a}}}"), True
        yield f"\\log_{{{a * a}}} {b * b}", boxed(f"\\log_{{{a}}} {b}"), True
    yield from right_pairs(
        ("\\cos\\frac{\\pi}{5}", "\\frac{1+\\sqrt5}{4}"),
        ("\\tan\\frac{\\pi}{8}", "\\sqrt2-1"),
        ("\\arctan 2+\\arctan 3", "\\frac{3\\pi}{4}"),
        ("4\\arctan\\frac15-\\arctan\\frac{1}{239}", "\\frac\\pi4"),
        ("\\sqrt[3]{5\\sqrt2+7}-\\sqrt[3]{5\\sqrt2-7}", "2"),
        ("\\sqrt2", "1.41421356237"),
        ("\\ln(x-2)+\\ln(x-3)", "\\ln((x-2)(x-3))"),
        ("\\sqrt[3]{x^2}", "x^{2/3}"),
        ("\\sum_{k=1}^{n}k", "\\frac{n(n+1)}{2}"),
        ("\\frac{n!}{(n-2)!}", "n(n-1)"),
        ("a-b-c", "a-c-b"),
    )
    yield from wrong_pairs(("|x|", "x"), ("\\sqrt2", "1.414215"), ("\\frac13x", "0.333333x"))


def structures() -> Iterator[Pair]:
    """Derivatives, chains, cycles, numbers and vectors beside each other, inverse functions."""
    for f, g in (("y", "x"), ("u", "t"), ("P", "z")):
        for d in ("d", "\\partial "):
            gold = f"\\frac{{{d}{f}}}{{{d}{g}}}=2{g}"
            yield gold, boxed(f"\\frac{{{d}{g}}}{{{d}{f}}}=2{g}"), False
            yield gold, boxed(f"\\frac{{{d}{f}}}{{{d}{g}}}=5{g}"), False
            yield gold, boxed(f"\\frac{{{d}^2{f}}}{{{d}{g}^2}}=2{g}"), False
            yield gold, boxed(f"2{g}=\\frac{{{d}{f}}}{{{d}{g}}}"), True
        yield f"d{f}/d{g}={f}", boxed(f"d{g}/d{f}={f}"), False
        yield f"d{f}/d{g}=2{g}", boxed(f"\\frac{{d{f}}}{{d{g}}}=2{g}"), True
        yield f"{f}={g}=b=\\frac{{1}}{{3}}", boxed(f"{f}=\\frac{{1}}{{3}}"), False
        yield f"{f}={g}=\\frac{{1}}{{3}}", boxed(f"{f}={g}=\\frac{{2}}{{6}}"), True
        yield f"{f}={g}=\\frac{{1}}{{3}}", boxed(f"{f}={g}=\\frac{{1}}{{2}}"), False
    for cycle in itertools.permutations("123"):
        even = "".join(cycle) in {"123", "231", "312"}
        for joint in (" ", ""):
            if joint or "".join(cycle) in {"123", "132"}:
                yield "(1 2 3)", boxed(f"({joint.join(cycle)})"), even
        yield "(1 2 3)(4 5)", boxed(f"(4 5)({' '.join(cycle)})"), even
    for row in ("1 3 2", "2 3 5", "4 1 9"):
        yield row, boxed(" ".join(sorted(row.split(), reverse=True))), False
        yield row, boxed(str(math.prod(map(int, row.split())))), False
        yield row, boxed(row), True
    yield from wrong_pairs(
        ("\\nabla\\times F", "\\nabla\\cdot F"),
        ("\\vec a\\times\\vec b", "\\vec a\\cdot\\vec b"),
        ("\\hat u\\times\\hat v", "\\hat u\\hat v"),
        ("f^{-1}(x)", "\\frac{1}{f(x)}"),
    )
    yield from right_pairs(
        ("2\\vec a+\\vec b", "\\vec b+2\\vec a"),
        ("\\frac{d^2y}{dx^2}+y=0", "y+\\frac{d^2y}{dx^2}=0"),
        ("ad-bc", "ad - cb"),
    )


def unit_cases() -> Iterator[Pair]:
    """Units that differ by letter case alone; prefixes; compound quantities."""
    for one, other in (("Mg", "mg"), ("Mm", "mm"), ("GB", "Gb"), ("MW", "mW"), ("Ms", "ms")):
        for n in (3, 40):
            yield f"{n} {one}", boxed(f"{n} \\text{{ {other}}}"), False
            yield f"{n} {other}", boxed(f"{n} {one}"), False
            yield f"{n} {one}", boxed(f"{n}\\ \\mathrm{{{one}}}"), True
    for symbol, name, factor in (
        ("kPa", "kilopascals", 1000), ("MHz", "megahertz", 10**6), ("kB", "kilobytes", 1000),
        ("mA", "milliamps", 0), ("cL", "centiliters", 0), ("nm", "nanometers", 0),
    ):  # fmt: skip
        yield f"7 {symbol}", boxed(f"7 {name}"), True
        yield f"7 {symbol}", boxed(f"7 {name.capitalize()}"), True
        if factor:
            yield f"7 {symbol}", boxed(f"{7 * factor} {symbol[1:]}"), True
            yield f"7 {symbol}", boxed(f"{70 * factor} {symbol[1:]}"), False
    for hours, minutes in ((1, 30), (2, 45), (3, 6)):
        total = 60 * hours + minutes
        gold = f"{hours} hour {minutes} minutes"
        yield gold, boxed(f"{total} minutes"), True
        yield gold, boxed(f"{hours}\\text{{ h }}{minutes}\\text{{ min}}"), True
        yield gold, boxed(f"{hours} hours and {minutes + 1} minutes"), False
        yield str(total), boxed(gold), True
        yield str(total + 1), boxed(gold), False
    yield from right_pairs(("70 inches", "5 feet 10 inches"), ("\\$3.50", "3 dollars and 50 cents"))


CLASSES = (close_values, equal_numbers, structures, unit_cases)
