"""Python programs that read standard input and write standard output."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictStr

from pipeline_lib.kinds.code import NO_TESTS
from pipeline_lib.kinds.kind import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramGold:
    """Pairs of input and expected output, all of which must agree.

    ``tolerance`` is for numbers among the tokens, absolute or relative; ``exact`` compares
    lines without white space at their ends, otherwise tokens are compared.
    """

    tests: tuple[tuple[str, str], ...]
    exact: bool = False
    tolerance: float = 0.0


class _Test(BaseModel):
    input: StrictStr
    output: StrictStr


class _Tolerance(BaseModel):
    tolerance: Annotated[float, Field(gt=0, lt=1)]


class _Line(BaseModel):
    tests: Annotated[tuple[_Test, ...], Field(min_length=1)]
    checker: Literal["exact", "tokens"] | _Tolerance = "tokens"


def _read_line(row: Mapping[str, Any]) -> ProgramGold:
    line = _Line.model_validate(row)
    return ProgramGold(
        tests=tuple((test.input, test.output) for test in line.tests),
        exact=line.checker == "exact",
        tolerance=line.checker.tolerance if isinstance(line.checker, _Tolerance) else 0.0,
    )


def _write_line(gold: ProgramGold) -> dict[str, Any]:
    named = "exact" if gold.exact else "tokens"
    return {
        "tests": [{"input": given, "output": wanted} for given, wanted in gold.tests],
        "checker": {"tolerance": gold.tolerance} if gold.tolerance else named,
    }


def agrees(gold: ProgramGold, wanted: str, printed: str) -> bool:
    """True if a program printed what a test expects."""
    if gold.exact:
        return _lines(wanted) == _lines(printed)
    tokens, others = wanted.split(), printed.split()
    return len(tokens) == len(others) and all(
        one == other or _near(one, other, gold.tolerance)
        for one, other in zip(tokens, others, strict=True)
    )


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _near(wanted: str, printed: str, tolerance: float) -> bool:
    if not tolerance:
        return False
    try:
        expected, found = float(wanted), float(printed)
    except ValueError:
        return False
    return abs(found - expected) <= tolerance * max(1.0, abs(expected)) < float("inf")


PROGRAM = Kind(
    name="program",
    gold=ProgramGold,
    instruction=(
        "Write the whole program in Python, in one fenced code block. It reads standard input and "
        "writes standard output."
    ),
    solution_texts=lambda _gold, solution: [f"```python\n{solution.strip()}\n```"],
    judge="pipeline_lib.verify.code:open_program_judge",
    show_gold=lambda gold: "\n".join(f"{given}-> {wanted}" for given, wanted in gold.tests),
    gold_check=lambda gold: None if gold.tests else NO_TESTS,
    read_line=_read_line,
    write_line=_write_line,
)
