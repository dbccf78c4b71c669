# ruff: noqa: RUF001 - look-alikes are the point
r"""Generated pairs for the math verifier: right answers in the spellings of other models and sources."""

import itertools
from collections.abc import Iterator

from benchmarks.lib.math_pairs.pair import Pair, boxed, right_pairs, wrong_pairs

_UNITS = ("i", "1i", "1\\cdot i", "i\\cdot 1", "\\mathrm{i}", "\\sqrt{-1}", "\\text{i}")


def imaginary_units() -> Iterator[Pair]:
    """The imaginary unit with and without its factor one."""
    for unit in _UNITS:
        yield "3+i", boxed(f"3+{unit}"), True
        yield "3-i", boxed(f"3-{unit}"), True
        yield "3+i", boxed(f"3-{unit}"), False
        yield "i", boxed(unit), True
        yield "2-5i", boxed(f"2-5{unit}" if unit[0] != "1" else "-5i+2"), True
    yield from right_pairs(
        ("-1", "i^2"), ("\\frac{1+i}{2}", "\\frac{1}{1-i}"), ("4", "(1+i)^2(1-i)^2")
    )
    yield from wrong_pairs(("1+i", "1+x"), ("i", "1"), ("2i", "2"))


def powers_of_ten() -> Iterator[Pair]:
    """Exponents of ten as programs, calculators and JSON write them."""
    for n in range(3, 9):
        gold = f"10^{{-{n}}}"
        decimal = "0." + "0" * (n - 1) + "1"
        spellings = (
            f"1e-{n}",
            f"1E-0{n}",
            f"1.0\\times 10^{{-{n}}}",
            decimal,
            f"\\frac{{1}}{{10^{n}}}",
        )
        for one in spellings[:4]:
            yield gold, boxed(one), True
            yield one, boxed(gold), True
        yield str(float(f"1e-{n}")), boxed(spellings[4]), True
        yield gold, boxed(f"1e-{n + 1}"), False
        yield f"1e-{n}", boxed(f"10^{{{n}}}"), False
        yield f"3.5\\times 10^{{{n}}}", boxed(f"3.5e+{n}"), True


def other_scripts() -> Iterator[Pair]:
    """Symbols, digits and words outside ASCII."""
    yield from right_pairs(
        ("2\\sqrt{3}", "2√3"), ("\\sqrt{10}", "√10"), ("\\sqrt{x+1}", "√(x+1)"), ("2\\pi", "2π"),
        ("\\frac{\\pi}{2}", "π/2"), ("1\\pm\\sqrt{2}", "1±√2"), ("\\alpha+\\beta", "β+α"), ("25\\%", "２５％"),
        ("x^2+1", "x²+1"), ("\\frac{1}{2}", "½"), ("30^\\circ", "30°"), ("x\\ge 2", "x≥2"),
        ("(-\\infty,3)", "(−∞, 3)"), ("42", "٤٢"), ("\\text{café}", "café"), ("\\text{北京}", "北京"),
        ("\\text{Москва}", "\\textbf{москва}"), ("\\text{naïve}", "\\text{Naïve}"), ("3\\cdot 10^5", "3×10⁵"),
        ("\\theta", "θ"), ("\\mathbb{Z}", "ℤ"),
    )  # fmt: skip
    yield from wrong_pairs(
        ("2\\sqrt{3}", "3√2"), ("2\\pi", "3π"), ("\\text{北京}", "上海"), ("\\text{café}", "cafés"), ("42", "٤٣"),
        ("\\alpha", "β"), ("\\sqrt{12}", "√1 2"), ("\\sqrt{x+1}", "√x+1"), ("x^2", "x³"),
    )  # fmt: skip


def choices() -> Iterator[Pair]:
    """Letters of multiple choice, alone and with what they stand for."""
    marks = ("({})", "\\text{{({})}}", "\\textbf{{({})}}", "\\textbf{{{}}}", "{}.", "{})", "Option {}",
             "\\text{{Choice {}}}", "option ({})", "\\mathrm{{({})}}")  # fmt: skip
    for gold, mark in itertools.product(("C", "(C)", "\\text{(C)}", "\\textbf{(C)}\\ 12"), marks):
        yield gold, boxed(mark.format("C")), True
        yield gold, boxed(mark.format("D")), False
    for gold in ("C", "(C)", "12", "\\textbf{(C)}\\ 12", "\\text{C}"):
        for answer in (
            "\\textbf{(C)}\\ 12",
            "(C) 12",
            "\\text{(C)} 12",
            "C) 12",
            "\\textbf{(C) }12",
        ):
            yield gold, boxed(answer), True
        for answer in ("\\textbf{(D)}\\ 13", "(B) 11"):
            yield gold, boxed(answer), False
    yield "\\textbf{(C)}\\ 12", boxed("12"), True
    yield "\\textbf{(C)}\\ 12", boxed("13"), False
    for gold in ("A, C, D", "ACD", "A,C,D", "\\text{A, C, D}"):
        for answer in (
            "A, C, D",
            "C, A, D",
            "(A), (C), (D)",
            "\\text{A, C, and D}",
            "A, C \\text{ and } D",
        ):
            yield gold, boxed(answer), True
        for answer in ("A, C", "A, B, D", "A, B, C, D"):
            yield gold, boxed(answer), False


def names() -> Iterator[Pair]:
    """Lists with names, constants and bound variables under other letters, parameters."""
    yield from right_pairs(
        ("x=1, y=2", "y=2, x=1"), ("x=1, y=2", "y=2 \\text{ and } x=1"), ("(x,y)=(1,2)", "x=1, y=2"),
        ("(x,y)=(1,2)", "(y,x)=(2,1)"), ("a=3, b=4, c=5", "c=5,\\ a=3,\\ b=4"), ("x=1,y=2", "(x, y) = (1, 2)"),
        ("x^2+C", "x^2+K"), ("\\ln|x|+C", "\\ln|x|+c"), ("\\frac{x^3}{3}+C", "C_1+\\frac{x^3}{3}"),
        ("C_1e^x+C_2e^{-x}", "Ae^x+Be^{-x}"), ("c_1\\cos x+c_2\\sin x", "C_1\\cos x+C_2\\sin x"),
        ("f(x)=x^2", "f(t)=t^2"), ("f(x)=2x+1", "y=2x+1"), ("y=2x+1", "f(x)=2x+1"), ("f(x)=2x+1", "2x+1"),
        ("\\{x : x>2\\}", "\\{t : t>2\\}"), ("\\{x \\mid x>2\\}", "(2,\\infty)"), ("a_n=2n+1", "a_k=2k+1"),
        ("x=2\\pi k, k\\in\\mathbb{Z}", "x=2\\pi n, n\\in\\mathbb{Z}"),
        ("2\\pi k, k\\in\\mathbb Z", "2k\\pi, \\ k \\in \\mathbb{Z}"), ("k\\in\\mathbb{Z}", "k \\in \\mathbb Z"),
        ("\\frac{\\pi}{4}+k\\pi, k\\in\\mathbb{Z}", "\\frac{\\pi}{4}+n\\pi \\text{ where } n \\text{ is an integer}"),
        ("x=\\pi k", "x=\\pi k, k\\in\\mathbb{Z}"),
        ("x=\\frac{\\pi}{6}+2\\pi k \\text{ for } k\\in\\mathbb{Z}", "x=2\\pi m+\\frac{\\pi}{6}, m\\in\\mathbb{Z}"),
    )  # fmt: skip
    yield from wrong_pairs(
        ("x=1, y=2", "x=2, y=1"), ("x=1, y=2", "y=1, x=2"), ("(x,y)=(1,2)", "(y,x)=(1,2)"),
        ("(x,y)=(1,2)", "x=2, y=1"), ("x^2+C", "x^2"), ("x^2+C", "x^2+y"), ("x^2+C", "2x^2+K"), ("x^2+C", "x^2+Cx"),
        ("f(x)=x^2", "f(t)=t^3"), ("f(x)=2x+1", "y=2x"), ("\\{x : x>2\\}", "\\{t : t>3\\}"), ("a_n=2n+1", "a_k=2n+1"),
        ("x=2\\pi k, k\\in\\mathbb{Z}", "x=\\pi n, n\\in\\mathbb{Z}"), ("k\\in\\mathbb{Z}", "k\\in\\mathbb{N}"),
        ("x=\\pi k, k\\in\\mathbb{Z}", "x=\\pi k, k\\in\\mathbb{N}"), ("C_1e^x+C_2e^{-x}", "Ae^x+Ae^{-x}"),
        ("Cx", "Kx+C"), ("f(x)=x^2", "f(x)=t^2"),
    )  # fmt: skip


def pieces() -> Iterator[Pair]:
    """Functions defined piece by piece."""
    gold = "\\begin{cases} x^2 & x \\ge 0 \\\\ -x & x < 0 \\end{cases}"
    for body, right in (
        ("x^2, & x \\geq 0 \\\\ -x, & x < 0", True),
        ("-x & \\text{if } x < 0 \\\\ x^2 & \\text{if } x \\ge 0", True),
        ("x^2 & \\text{for } x \\ge 0, \\\\ -x & \\text{for } 0 > x.", True),
        ("x^2 & \\text{if } x \\ge 0 \\\\ -x & \\text{otherwise}", True),
        ("x^2 & x > 0 \\\\ -x & x < 0", False),
        ("-x & x \\ge 0 \\\\ x^2 & x < 0", False),
        ("x^3 & x \\ge 0 \\\\ -x & x < 0", False),
    ):
        yield gold, boxed(f"\\begin{{cases}} {body} \\end{{cases}}"), right
        yield f"f(x)={gold}", boxed(f"f(x) = \\begin{{cases}} {body} \\end{{cases}}"), right
        yield (
            f"f(x)={gold}",
            boxed(f"\\left\\{{\\begin{{array}}{{ll}} {body} \\end{{array}}\\right."),
            right,
        )


def notations() -> Iterator[Pair]:
    """Binomial coefficients, numerals in brackets, ratios of three."""
    for n, k, value in ((10, 3, 120), (7, 2, 21), (12, 5, 792)):
        spellings = (f"C_{{{n}}}^{{{k}}}", f"C_{{{n}}}^{k}", f"{{}}_{{{n}}}C_{{{k}}}", f"C({n},{k})", f"\\binom{{{n}}}{{{k}}}",
                     f"^{{{n}}}C_{{{k}}}", f"{{{n} \\choose {k}}}")  # fmt: skip
        for one in spellings:
            yield str(value), boxed(one), True
            yield str(value + 1), boxed(one), False
            yield one, boxed(str(value)), True
            yield f"\\binom{{{n}}}{{{k}}}", boxed(one), True
    for digits, base in (("1101", 2), ("52", 8), ("A1", 16)):
        for answer in (
            f"({digits})_{{{base}}}",
            f"{digits}_{{{base}}}",
            f"({digits})_{{\\text{{{base}}}}}",
        ):
            yield f"{digits}_{{{base}}}", boxed(answer), True
            yield f"({digits})_{{{base}}}", boxed(answer), True
            yield f"{digits}1_{{{base}}}", boxed(answer), False
    for a, b, c in ((2, 3, 4), (1, 1, 2), (3, 5, 7)):
        yield f"{a}:{b}:{c}", boxed(f"{a} : {b} : {c}"), True
        yield f"{a}:{b}:{c}", boxed(f"{2 * a}:{2 * b}:{2 * c}"), True
        yield f"{a}:{b}:{c}", boxed(f"{c}:{b}:{a}"), False
        yield f"{a}:{b}:{c}", boxed(f"{a}:{b}"), False
        yield f"{a}:{b}:{c}", boxed(f"\\frac{{{a}}}{{{b}}}"), False


def wrappers() -> Iterator[Pair]:
    """Values with LaTeX commands or words around them, in the box."""
    wraps = ("\\color{{red}}{{{}}}", "\\textcolor{{blue}}{{{}}}", "\\color{{red}} {}", "\\underline{{{}}}", "\\fbox{{{}}}", "\\bm{{{}}}",
             "\\boldsymbol{{{}}}", "\\mathbf{{{}}}", "Answer: {}", "The answer is {}", "\\text{{Answer: }}{}", "\\text{{The answer is }} {}",
             "= {}", "\\therefore {}", "{}\\,.", "\\Large {}", "\\displaystyle{{{}}}", "{{{}}}", "\\boxed{{{}}}",
             "\\colorbox{{yellow}}{{${}$}}", "\\hspace{{1em}}{}", "\\text{{Final answer: }} {}", "{} \\quad \\checkmark", "**{}**")  # fmt: skip
    for value, other in (
        ("5", "6"),
        ("\\frac{3}{4}", "\\frac{4}{3}"),
        ("x^2+1", "x^2-1"),
        ("\\sqrt{2}", "\\sqrt{3}"),
    ):
        for wrap in wraps:
            yield value, boxed(wrap.format(value)), True
            yield value, boxed(wrap.format(other)), False
    yield from wrong_pairs(
        ("5", "\\text{not }5"),
        ("5", "\\text{The answer is not }5"),
        ("5", "\\cancel{5}"),
        ("5", "\\overline{5}x"),
    )


def large() -> Iterator[Pair]:
    """Long lists, matrices and powers."""
    row = list(range(1, 120))
    gold = ", ".join(map(str, row))
    yield gold, boxed(gold), True
    yield gold, boxed(",".join(map(str, reversed(row)))), True
    yield gold, boxed(", ".join(map(str, [*row[:-1], 7]))), False
    yield f"\\{{{gold}\\}}", boxed(f"\\{{{','.join(map(str, row))}\\}}"), True
    matrix = "\\begin{{pmatrix}}{}\\end{{pmatrix}}"
    rows = [" & ".join(str(i * j % 7) for j in range(11)) for i in range(11)]
    yield (
        matrix.format(" \\\\ ".join(rows)),
        boxed(matrix.format("\\\\".join(rows)).replace("pm", "bm")),
        True,
    )
    yield matrix.format(" \\\\ ".join(rows)), boxed(matrix.format("\\\\".join(rows[::-1]))), False
    yield "2^{1000000}", boxed("2^{1000000}"), True
    yield "2^{1000000}", boxed("2^{1000001}"), False
    terms = [f"{k}x^{{{k}}}" for k in range(1, 90)]
    yield "+".join(terms), boxed(" + ".join(terms)), True
    yield "+".join(terms), boxed("+".join(reversed(terms))), True
    yield "+".join(terms), boxed("+".join(terms[:-1])), False


CLASSES = (
    imaginary_units, powers_of_ten, other_scripts, choices, names, pieces, notations, wrappers, large,
)  # fmt: skip
