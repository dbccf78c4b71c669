r"""Generated pairs for the math verifier: symbols and relations."""

import itertools
from collections.abc import Iterator

from benchmarks.lib.math_pairs.pair import Pair, boxed, right_pairs, wrong_pairs


def bases() -> Iterator[Pair]:
    """Numerals in other bases: digits and base both matter."""
    for digits, base in (("52", "8"), ("101", "2"), ("4210", "5"), ("2516", "8"), ("40", "9")):
        gold = f"{digits}_{base}"
        yield gold, boxed(f"{digits}_{{{base}}}"), True
        yield gold, boxed(f"{digits}_{{\\text{{{base}}}}}"), True
        yield gold, boxed(f"{digits}_{int(base) + 1}"), False
        yield gold, boxed(f"{digits}_{{1{base}}}"), False
        yield digits, boxed(gold), False
        yield gold, boxed(f"{digits[::-1]}1_{base}"), False
        yield gold, boxed(f"{digits}0_{base}"), False
    yield from right_pairs(*(("1A_{16}", "1A_{16}"), ("A5_{12}", "\\text{A5}_{12}")))
    yield from wrong_pairs(*(("1A_{16}", "1B_{16}"), ("1A_{16}", "A1_{16}"), ("26", "26_{16}")))


def words_of_letters() -> Iterator[Pair]:
    """Words are not commutative products of letters."""
    for word in ("ABC", "DOG", "XIV", "MATH", "CAT", "BDE", "IV", "STOP", "ACB", "XL"):
        for other in (word[::-1], word[1:] + word[:1]):
            if other != word:
                yield word, boxed(other), False
                yield f"\\text{{{word}}}", boxed(other), False
                yield f"\\text{{{word}}}", boxed(f"\\text{{{other}}}"), False
                yield word, boxed(f"\\mathrm{{{other}}}"), False
        yield word, boxed(f"\\text{{{word}}}"), True
        yield f"\\text{{{word}}}", boxed(word), True
        yield f"\\text{{{word}}}", boxed(f"\\mathbf{{{word}}}"), True
    for one, other in (
        ("Evelyn", "Navin"),
        ("east", "seat"),
        ("even", "odd"),
        ("listen", "silent"),
    ):
        yield f"\\text{{{one}}}", boxed(other), False
        yield f"\\text{{{one}}}", boxed(f"\\text{{{one.upper()}}}"), True
        yield f"\\text{{{one}}}", boxed(one.lower()), True
    yield from right_pairs(*(("xy", "yx"), ("abc", "cab"), ("2xy", "2yx"), ("pq", "qp")))


def marks() -> Iterator[Pair]:
    """Primes and transposes."""
    for letter in ("f", "x", "A", "y", "g"):
        yield f"{letter}'", boxed(letter), False
        yield letter, boxed(f"{letter}'"), False
        yield f"{letter}''", boxed(f"{letter}'"), False
        yield f"{letter}'", boxed(f"{letter}^{{\\prime}}"), True
        yield f"{letter}'(2)", boxed(f"{letter}(2)"), False
        yield f"2{letter}'+1", boxed(f"1+2{letter}'"), True
        yield f"2{letter}'+1", boxed(f"1+2{letter}"), False
    for letter in ("A", "B", "M", "Q"):
        yield f"{letter}^T", boxed(letter), False
        yield letter, boxed(f"{letter}^T"), False
        yield f"{letter}^T", boxed(f"{letter}^{{\\top}}"), True
        yield f"{letter}^T", boxed(f"{letter}^{{\\mathrm{{T}}}}"), True
        yield f"{letter}^T C^T", boxed(f"C^T {letter}^T"), False
        yield f"{letter}^{{-1}}", boxed(letter), False
        yield f"\\overline{{{letter}}}", boxed(letter), False
    yield from wrong_pairs(
        *(("f'g+fg'", "2fg"), ("f'g+fg'", "2f'g"), ("5'", "5"), ("5", "5'"), ("5", "5''"))
    )
    yield from right_pairs(*(("f'g+fg'", "fg'+f'g"),))


def orders() -> Iterator[Pair]:
    """Points, segments, matrices and cross products by the order of their letters."""
    for one, other in (("ABC", "ACB"), ("PQ", "QP"), ("XYZ", "YXZ")):
        for mark in ("\\angle", "\\triangle", "\\overline"):
            gold, answer = (
                f"{mark}{{{w}}}" if "over" in mark else f"{mark} {w}" for w in (one, other)
            )
            yield gold, boxed(answer), False
            yield gold, boxed(gold), True
    for gold, answer in (
        ("A^{-1}B", "BA^{-1}"), ("AB-BA", "0"), ("A^T B", "B A^T"), ("P^{-1}AP", "A"), ("M^{-1}N", "NM^{-1}"),
        ("\\vec{a} \\times \\vec{b}", "\\vec{b} \\times \\vec{a}"),
        ("\\mathbf{u} \\times \\mathbf{v}", "\\mathbf{v} \\times \\mathbf{u}"),
    ):  # fmt: skip
        yield gold, boxed(answer), False
        yield gold, boxed(gold), True
    yield from right_pairs(
        ("A+B", "B+A"),
        ("\\frac{AB}{2}", "\\frac{1}{2}AB"),
        ("\\vec{a}+\\vec{b}", "\\vec{b}+\\vec{a}"),
    )


def letter_case() -> Iterator[Pair]:
    """Case of letters matters, except in multiple choice."""
    for letter in ("x", "r", "a", "n", "k", "e", "b"):
        upper = letter.upper()
        for form in (
            "{}",
            "3{}^2",
            "2{}+1",
            "\\frac{{{}}}{{2}}",
            "\\sqrt{{{}}}",
            "{}=5",
            "({}, 1)",
        ):
            if letter == "e" and form not in {"3{}^2", "{}"}:
                continue
            yield form.format(letter), boxed(form.format(upper)), False
            yield form.format(upper), boxed(form.format(letter)), False
    yield from wrong_pairs(
        *(
            ("\\gamma", "\\Gamma"),
            ("\\delta", "\\Delta"),
            ("2\\omega", "2\\Omega"),
            ("\\sigma+1", "\\Sigma+1"),
            ("ab", "AB"),
            ("abc+1", "ABC+1"),
            ("abc", "ABC"),
            ("xyz", "XYZ"),
        ),
    )
    for letter in "ABCDE":
        yield f"\\text{{({letter})}}", boxed(letter), True
        yield f"\\text{{({letter})}}", boxed(letter.lower()), True
        yield f"\\text{{({letter})}}", boxed(f"({letter.lower()})"), True
        yield f"\\text{{({letter})}}", boxed(f"\\textbf{{({letter})}}"), True
        yield f"\\text{{({letter})}}", boxed(chr(ord(letter) + 1)), False


def swallowed_symbols() -> Iterator[Pair]:
    """A letter after a number is a factor, not a unit."""
    for number, letter in itertools.product(
        ("4", "12", "\\frac{1}{2}", "3\\sqrt{2}"), "mghstcdklnx"
    ):
        yield f"{number}{letter}", boxed(number), False
        yield number, boxed(f"{number}{letter}"), False
        yield f"{number}{letter}", boxed(f"{letter} \\cdot {number}"), True


def degrees_in_functions() -> Iterator[Pair]:
    """A degree sign inside a function changes the value."""
    for name, angle in itertools.product(("sin", "cos", "tan"), ("30", "20", "75", "1")):
        yield f"\\{name} {angle}^\\circ", boxed(f"\\{name} {angle}"), False
        yield f"\\{name} {angle}", boxed(f"\\{name} {angle}^\\circ"), False
        yield f"\\{name} {angle}^\\circ", boxed(f"\\{name}({angle}^{{\\circ}})"), True
        yield f"2\\{name} {angle}^\\circ", boxed(f"\\{name} {angle}^\\circ \\cdot 2"), True
    yield from right_pairs(
        *(
            ("\\frac{1}{2}", "\\sin 30^\\circ"),
            ("\\tan 45^\\circ", "1"),
            ("90^\\circ", "90"),
            ("\\frac{1}{2}", "\\cos(60^\\circ)"),
        ),
    )
    yield from wrong_pairs(
        *(("\\sin 30", "\\frac{1}{2}"), ("\\frac{1}{2}", "\\sin 30"), ("30^\\circ", "60"))
    )


def negated_relations() -> Iterator[Pair]:
    """Negated relations do not state the value."""
    for sign in ("\\neq", "\\ne", "\\not=", "\\not =", "\\not\\equiv", "≠", "<>", "!="):
        for value in ("5", "\\sqrt{2}", "y+1"):
            yield f"x = {value}", boxed(f"x {sign} {value}"), False
            yield value, boxed(f"x {sign} {value}"), False
            yield f"x \\neq {value}", boxed(f"x = {value}"), False
        yield "5", boxed(f"{sign} 5"), False
    for sign in ("\\neq", "\\ne", "\\not=", "≠"):
        yield "x \\neq 3", boxed(f"x {sign} 3"), True
    yield from wrong_pairs(
        *(
            ("x \\in [1,2]", "x \\notin [1,2]"),
            ("x \\in [1,2]", "x \\not\\in [1,2]"),
            ("x < 5", "x \\not< 5"),
            ("5", "\\neg 5"),
            ("5", "\\lnot 5"),
            ("5", "\\sim 5"),
        ),
    )


def dots() -> Iterator[Pair]:
    """Numbers and lists with and without an ellipsis."""
    for number, tail in itertools.product(
        ("5", "3.14", "12", "0.5", "1.41"), ("...", "\\ldots", "\\dots", "…", " ...", "\\cdots")
    ):
        yield number, boxed(number + tail), False
        yield number + tail, boxed(number), False
    for tail in ("...", "\\ldots", "\\dots", "\\cdots"):
        yield "1, 2, 3", boxed(f"1, 2, 3, {tail}"), False
        yield f"1, 2, 3, {tail}", boxed("1, 2, 3"), False
        yield "\\{1, 2\\}", boxed(f"\\{{1, 2, {tail}\\}}"), False
        yield "6", boxed(f"1+2+3+{tail}"), False
    yield from right_pairs(*(("5", "5."), ("3.14", "3.14."), ("x+1", "x+1.")))


def slashes() -> Iterator[Pair]:
    """Ambiguous slashes such as 1/2x and a/bc."""
    for above, below in itertools.product(
        ("1", "3", "a"), ("2x", "bc", "4y", "2\\pi", "2\\sqrt{3}")
    ):
        yield f"{above}/{below}", boxed(f"{above}/{below}"), True
        first, rest = below[0], below[1:]
        yield f"\\frac{{{above}}}{{{below}}}", boxed(f"\\frac{{{above}}}{{{first}}}{rest}"), False
        # One of the two readings only can be right; accepting both is wrong in one.
        yield (
            f"\\frac{{{above}}}{{{first}}}{rest}+1",
            boxed(f"\\frac{{{above}}}{{{below}}}+1"),
            False,
        )
    yield from right_pairs(
        *(
            ("\\frac{3}{4}", "3/4"),
            ("\\frac{1}{2}x", "(1/2)x"),
            ("\\frac{1}{2x}", "1/(2x)"),
            ("\\frac{x}{2}", "x/2"),
            ("\\frac{2\\pi}{3}", "2\\pi/3"),
            ("\\frac{\\sqrt{3}}{2}", "\\sqrt{3}/2"),
        ),
    )
    yield from wrong_pairs(
        *(("\\frac{1}{2x}", "1/2x"), ("\\frac{a}{bc}", "a/bc"), ("\\frac{1}{2\\pi}", "1/2\\pi")),
    )


def moduli() -> Iterator[Pair]:
    """Residues with different moduli differ."""
    for residue, modulus in itertools.product(("3", "5", "1"), (7, 12, 10)):
        gold = f"{residue} \\pmod{{{modulus}}}"
        yield gold, boxed(f"{residue} \\pmod{{{modulus + 1}}}"), False
        yield gold, boxed(f"{int(residue) + 1} \\pmod{{{modulus}}}"), False
        yield f"x \\equiv {gold}", boxed(f"x \\equiv {residue} \\pmod {{{modulus}}}"), True
        yield f"x \\equiv {gold}", boxed(f"x \\equiv {residue} \\pmod{{{2 * modulus}}}"), False
        yield gold, boxed(f"{residue} \\bmod {modulus}"), True
        yield gold, boxed(f"{residue} \\mod {modulus}"), True
        yield gold, boxed(f"{residue} \\text{{ mod }} {modulus}"), True
        yield str(int(residue) + modulus), boxed(gold), False
        yield str(modulus), boxed(gold), False


def factorials() -> Iterator[Pair]:
    """Factorials, double factorials and factorials of factorials differ."""
    for number, double, single, twice in (
        (4, 8, 24, None),
        (5, 15, 120, None),
        (6, 48, 720, None),
        (3, 3, 6, 720),
        (7, 105, 5040, None),
    ):
        yield str(double), boxed(f"{number}!!"), True
        yield str(single), boxed(f"{number}!"), True
        yield str(single), boxed(f"{number}!!"), False
        yield f"{number}!", boxed(f"{number}!!"), False
        yield f"{number}!!", boxed(f"{number}!"), False
        yield f"{number}!!", boxed(f"({number}!)!"), False
        if twice:
            yield str(twice), boxed(f"({number}!)!"), True
            yield str(twice), boxed(f"{number}!!"), False
    yield from wrong_pairs(
        *(("n!!", "n!"), ("n!", "n!!"), ("(n!)!", "n!!"), ("5", "5!"), ("5", "5!!!"))
    )


CLASSES = (
    bases,
    words_of_letters,
    marks,
    orders,
    letter_case,
    swallowed_symbols,
    degrees_in_functions,
    negated_relations,
    dots,
    slashes,
    moduli,
    factorials,
)
