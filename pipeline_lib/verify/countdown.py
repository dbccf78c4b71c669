"""Judge of Countdown: every number used exactly once, exact arithmetic, target reached.

Two formats are strict: steps, one per line and nothing else, as requested, or an expression in
``<answer>`` tags. The lenient score also accepts a boxed expression, an expression on the last
line, or the last steps in prose. Expressions are parsed with `ast` and never executed.
"""

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.answer_text import last_boxes, plain, strip_reasoning
from pipeline_lib.verify.judges import pure_judge_opener

MAX_TEXT_CHARS = 20_000
"""Of a longer text only the end is read, and it is never strict."""
MAX_DEPTH = 40
MAX_SHOWN_CHARS = 200

_ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_OPERATORS: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_SIGNS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
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


class Rule(StrEnum):
    """Rule that found the solution; the first two are the strict formats."""

    STEPS = "steps"
    ANSWER_TAG = "answer_tag"
    BOXED = "boxed"
    LAST_LINE = "last_line"
    STEPS_IN_PROSE = "steps_in_prose"


class _RefusedError(ValueError):
    """The text found does not solve the problem; the message gives the reason."""


def judge(gold: CountdownGold, text: str) -> Verdict:
    """Judge one completion.

    ``unparsed``: no rule found a solution; both scores are then False.
    """
    found = _extract(text, num_numbers=len(gold.numbers))
    if found is None:
        return Verdict(status=Status.UNPARSED, strict=False, lenient=False)
    solution, rule = found
    detail = None
    try:
        if steps := _steps(solution):
            _check_steps(steps, gold)
        else:
            _check_expression(solution, gold)
    except _RefusedError as error:
        detail = str(error)
    return Verdict(
        status=Status.CORRECT if detail is None else Status.WRONG,
        strict=detail is None and rule in {Rule.STEPS, Rule.ANSWER_TAG},
        lenient=detail is None,
        extracted=solution[:MAX_SHOWN_CHARS],
        rule=rule.value,
        detail=detail,
    )


open_judge = pure_judge_opener(judge)


def answer_form(text: str) -> str | None:
    """Canonical spelling of the solution in a text, read without the gold; None if there is none.

    The form is the sorted list of steps; an expression is split into its steps. Commuted operands
    and reordered independent steps give the same form. Nothing is checked: a step keeps the written
    value, right or wrong.
    """
    found = _extract(text, num_numbers=None)
    if found is None:
        return None
    solution, _ = found
    parts = [_step_form(one[2], one[1], one[3], int(one[4])) for one in _steps(solution)]
    if not parts:
        expression = solution.rstrip(" .").partition("=")[0]
        try:
            _evaluate(_parse(expression[:MAX_EXPRESSION_CHARS]), [], parts)
        except _RefusedError:
            return "".join(expression.split())
    return "; ".join(sorted(parts))


def _step_form(sign: str, left: object, right: object, value: object) -> str:
    operands = [str(left), str(right)]
    return f"{sign.join(sorted(operands) if sign in '+*' else operands)}={value}"


def _extract(text: str, *, num_numbers: int | None) -> tuple[str, Rule] | None:
    visible = strip_reasoning(text)
    ending = plain(visible[-MAX_TEXT_CHARS:])
    if len(visible) <= MAX_TEXT_CHARS and _steps(ending):
        return ending.strip(), Rule.STEPS
    tagged = _ANSWER.findall(ending)
    if tagged:
        return strip_latex(tagged[-1]).strip(), Rule.ANSWER_TAG
    boxed = strip_latex("".join(last_boxes(ending)[-1:]))
    if has_operator(boxed):
        return boxed.strip(), Rule.BOXED
    return _in_prose(strip_latex(ending), num_numbers=num_numbers)


def _steps(text: str) -> list[re.Match[str]]:
    """The steps of a text; none if it holds anything else."""
    lines = [STEP.fullmatch(line) for line in text.split("\n") if line.strip()]
    steps = [step for step in lines if step]
    return steps if len(steps) == len(lines) else []


def _in_prose(text: str, *, num_numbers: int | None) -> tuple[str, Rule] | None:
    """The last expression or steps in prose; ``num_numbers``: of the problem, None if unknown."""
    last_line = LIST_MARK.sub("", text.rstrip().rpartition("\n")[2], count=1).strip("^")
    candidates = [found for found in find_expressions(last_line) if has_operator(found)]
    last = (candidates[-1], Rule.LAST_LINE) if candidates else None
    if last and num_numbers in {None, len(re.findall(r"\d+", last[0].partition("=")[0]))}:
        return last
    # n numbers take exactly n - 1 steps; earlier ones are discarded attempts.
    steps = list(find_steps(text))[0 if num_numbers is None else 1 - num_numbers :]
    return ("\n".join(steps), Rule.STEPS_IN_PROSE) if steps else last


def _check_steps(steps: Iterable[re.Match[str]], gold: CountdownGold) -> None:
    available = Counter(Fraction(number) for number in gold.numbers)
    result: Fraction | None = None
    for step in steps:
        left, right, written = (Fraction(step[group]) for group in (1, 3, 4))
        for operand in (left, right):
            if not available[operand]:
                raise _RefusedError(f"{operand} is not available")
            available[operand] -= 1
        result = _apply(step[2], left, right)
        if result != written:
            raise _RefusedError(f"{step[0].strip()}: it is {result}")
        available[result] += 1
    if available.total() != 1:
        raise _RefusedError(f"{available.total() - 1} numbers are left over")
    if result != gold.target:
        raise _RefusedError(f"the last value is {result}, not {gold.target}")


def _apply(sign: str, left: Fraction, right: Fraction) -> Fraction:
    try:
        return _OPERATORS[sign](left, right)
    except ZeroDivisionError as error:
        raise _RefusedError(f"{left}/{right}: division by zero") from error


def _check_expression(solution: str, gold: CountdownGold) -> None:
    expression, *claims = solution.rstrip(" .").split("=")
    if len(solution) > MAX_EXPRESSION_CHARS:
        raise _RefusedError(f"longer than {MAX_EXPRESSION_CHARS} characters")
    leaves: list[int] = []
    value = _evaluate(_parse(expression), leaves, [])
    if Counter(leaves) != Counter(gold.numbers):
        raise _RefusedError(
            f"it uses {_format_numbers(leaves)}, not {_format_numbers(gold.numbers)}"
        )
    if value != gold.target:
        raise _RefusedError(f"its value is {value}, not {gold.target}")
    if any(claim.strip() != str(gold.target) for claim in claims):
        raise _RefusedError(f"it is claimed to be {claims[-1].strip()[:20]}, not {gold.target}")


def _format_numbers(numbers: Sequence[int]) -> str:
    return ",".join(str(number)[:20] for number in sorted(numbers)[:20])


def _parse(expression: str) -> ast.expr:
    try:
        if is_arithmetic(expression):
            return ast.parse(" ".join(expression.split()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise _RefusedError("not an arithmetic expression of numbers, + - * / and parentheses")


def _evaluate(node: ast.expr, leaves: list[int], steps: list[str], depth: int = 0) -> Fraction:
    """The value of an expression; its numbers and steps are appended to the lists."""
    if depth > MAX_DEPTH:
        raise _RefusedError(f"nested more than {MAX_DEPTH} deep")
    match node:
        case ast.Constant(value=int() as number):
            leaves.append(number)
            return Fraction(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, leaves, steps, depth + 1)
        case ast.List(elts=[inner]):
            return _evaluate(inner, leaves, steps, depth + 1)
        case ast.BinOp(op=operation) if sign := _SIGNS.get(type(operation)):
            left = _evaluate(node.left, leaves, steps, depth + 1)
            right = _evaluate(node.right, leaves, steps, depth + 1)
            value = _apply(sign, left, right)
            steps.append(_step_form(sign, left, right, value))
            return value
        case _:
            raise _RefusedError("only + - * / and parentheses are allowed")


def is_arithmetic(expression: str) -> bool:
    """True if it consists of numbers, signs and brackets; the brackets may not match."""
    return bool(_RUN.fullmatch(" ".join(expression.split())) and re.search(r"\d", expression))


def has_operator(text: str) -> bool:
    """True if a number or a bracket is followed by an operator."""
    return re.search(r"[\d)\]] ?[-+*/]", " ".join(text.split())) is not None


def strip_latex(text: str) -> str:
    """Replace signs of LaTeX and Markdown by signs of arithmetic, and fractions by quotients.

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
