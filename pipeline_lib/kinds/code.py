"""Python functions, decided by tests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, StrictStr

from pipeline_lib.kinds.kind import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeGold:
    """Python source with asserts, or HumanEval's ``check(candidate)``, for one function."""

    entry_point: str
    tests: str


def entry_name(entry_point: str) -> str:
    """The name that a program must define: ``Solution`` for ``Solution().f``."""
    return entry_point.partition("(")[0].strip()


class _Line(BaseModel):
    entry_point: StrictStr
    tests: StrictStr


def _read_line(row: Mapping[str, Any]) -> CodeGold:
    line = _Line.model_validate(row)
    return CodeGold(entry_point=line.entry_point, tests=line.tests)


CODE = Kind(
    name="code",
    gold=CodeGold,
    instruction="Write the function in Python, complete, in one fenced code block.",
    solution_texts=lambda _gold, solution: [f"```python\n{solution.strip()}\n```"],
    judge="pipeline_lib.verification.code.pool:open_judge",
    show_gold=lambda gold: gold.tests,
    read_line=_read_line,
    write_line=lambda gold: {"entry_point": gold.entry_point, "tests": gold.tests},
)
