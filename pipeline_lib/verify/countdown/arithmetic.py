"""Arithmetic in model text: LaTeX removed, complete expressions and steps extracted.

All functions take linear time. Fragments of other formulas are not expressions.
"""

import re
from collections.abc import Iterator

MAX_EXPRESSION_CHARS = 400

STEP = re.compile(r"\s*(-?\d{1,12})\s*([-+*/])\s*(-?\d{1,12})\s*=\s*(-?\d{1,12})\s*")
_LEFT_SIDE = re.compile(r"[-+*/() \d]*$")
_RIGHT_SIDE = re.compile(r"= {0,3}(-?\d{1,12})(?![\d.]*\d)")
_LEFT_CHARS = 60
LIST_MARK = re.compile(r"^\s*(?:\d{1,3}\)|[-*+])\s+")
_RUN = re.compile(r"[-+*/()\[\] \d]++")
_CLAIM = re.compile(r"= {0,3}-?\d{1,12}(?![\d.]*\d)")
_TOUCHING = frozenset("_^!%\\{}.,")
_PART = r" ?(?:\{([^{}]*)\}|(\d))"
_FRACTION = re.compile(rf"\\[dt]?frac(?![A-Za-z]){_PART}{_PART}")
_MAX_NESTED = 10
_LATEX_SIGNS = {
    "\\times": "*", "\\cdot": "*", "\\div": "/", "\\left": "", "\\right": "", "\\(": "", "\\)": "",
    "\\[": "", "\\]": "", "$": "", "`": "", "**": "^",
}  # fmt: skip


def is_arithmetic(expression: str) -> bool:
    """True if it consists of numbers, signs and brackets; the brackets may not match."""
    return bool(_RUN.fullmatch(" ".join(expression.split())) and re.search(r"\d", expression))


def has_operator(text: str) -> bool:
    """True if a number or a bracket is followed by an operator."""
    return re.search(r"[\d)\]] ?[-+*/]", " ".join(text.split())) is not None


def strip_latex(text: str) -> str:
    """Replace signs of LaTeX and Markdown by those of arithmetic, and fractions by quotients.

    Quotients are in square brackets, so that no parenthesis is closed across the end of a part.
    """
    for written, sign in _LATEX_SIGNS.items():
        text = text.replace(written, sign)
    for _ in range(_MAX_NESTED if "frac" in text else 0):
        text = _FRACTION.sub(r"[[\1\2]/[\3\4]]", text)
    return text


def find_expressions(line: str, *, most_chars: int | None = MAX_EXPRESSION_CHARS) -> list[str]:
    """The complete expressions in the last ``most_chars`` of a line, each with its stated value; None: in all of it."""
    found = []
    cut = most_chars is not None and len(line) > most_chars
    line = line[-most_chars:] if most_chars is not None else line
    for run in _RUN.finditer(line):
        before, after = line[: run.start()][-1:], line[run.end() : run.end() + 2]
        if (cut and not run.start()) or _continues(before, run[0], after):
            continue
        claim = _CLAIM.match(line, run.end())
        found.append(f"{run[0]}{claim[0] if claim else ''}".strip())
    return found


def _continues(before: str, run: str, after: str) -> bool:
    """True if a run of digits and signs continues in the adjacent text."""
    if before and (run.strip()[:1] in {"+", "*", "/"} or not run.startswith(" ")):
        touching = before.isalnum() or before in _TOUCHING
        if touching and not (before == "." and run.startswith(" ")):
            return True
    number_goes_on = after[:1] in {".", ","} and after[1:].isdigit()
    word_goes_on = after[:1].isalnum() or after[:1] in _TOUCHING - {".", ","}
    return not run.endswith(" ") and bool(after) and (number_goes_on or word_goes_on)


def find_steps(text: str) -> Iterator[str]:
    """Yield the steps of one operation in a text, in order."""
    for right in _RIGHT_SIDE.finditer(text):
        # Searching backwards from each "=" takes linear time even for one long sum.
        start = max(0, right.start() - _LEFT_CHARS)
        left = _LEFT_SIDE.search(text[start : right.start()])
        assert left is not None
        before = text[start + left.start() - 1] if start + left.start() else ""
        if _continues(before, left[0], "") or (start and not left.start()):
            continue
        step = f"{LIST_MARK.sub('', left[0], count=1).strip()}={right[1]}"
        if STEP.fullmatch(step):
            yield step
