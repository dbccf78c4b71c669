"""Python functions, decided by tests."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, Field, StrictStr, field_validator

from pipeline_lib.kinds.kind import Kind

MAX_TESTS = 8 << 20
"""Characters of the tests of one problem of a data set: what an examiner reads in a second."""
NO_TESTS = f"it has no tests, or more than {MAX_TESTS >> 20} MiB of them"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeGold:
    """Python source with asserts, or HumanEval's ``check(candidate)``, for one function."""

    entry_point: str
    tests: str
    prompt: str = ""
    """The head of the function, if texts may only complete it."""


def given_beside(prompt: str, name: str) -> str:
    """Source of the prompt's functions and classes other than ``name``; empty if there are none.

    Some tests use them. They are taken from the prompt, so that a model cannot redefine them.
    SyntaxError: the prompt is not the head of a Python function.
    """
    body = ast.parse(f"{prompt}\n    pass\n").body
    beside = [n for n in body if not (isinstance(n, ast.FunctionDef) and n.name == name)]
    if not any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in beside):
        return ""
    return ast.unparse(ast.Module(body=beside, type_ignores=[])) + "\n\n"


def entry_name(entry_point: str) -> str:
    """The name that a program must define: ``Solution`` for ``Solution().f``."""
    return entry_point.partition("(")[0].strip()


class _Line(BaseModel):
    entry_point: StrictStr
    tests: Annotated[StrictStr, Field(validation_alias=AliasChoices("tests", "test"))]
    prompt: StrictStr = ""

    @field_validator("prompt")
    @classmethod
    def _is_head(cls, prompt: str) -> str:
        try:
            given_beside(prompt, "")
        except SyntaxError as error:
            raise ValueError(f"not the head of a Python function ({error.msg})") from error
        return prompt


def _read_line(row: Mapping[str, Any]) -> CodeGold:
    line = _Line.model_validate(row)
    given = given_beside(line.prompt, entry_name(line.entry_point)) if line.prompt else ""
    tests = line.tests if line.tests.startswith(given) else given + line.tests
    return CodeGold(entry_point=line.entry_point, tests=tests, prompt=line.prompt)


def _write_line(gold: CodeGold) -> dict[str, Any]:
    prompt = {"prompt": gold.prompt} if gold.prompt else {}
    return {"entry_point": gold.entry_point, "tests": gold.tests, **prompt}


CODE = Kind(
    name="code",
    gold=CodeGold,
    instruction="Write the function in Python, complete, in one fenced code block.",
    solution_texts=lambda _gold, solution: [f"```python\n{solution.strip()}\n```"],
    judge="pipeline_lib.verify.code:open_judge",
    show_gold=lambda gold: gold.tests,
    gold_check=lambda gold: None if gold.tests else NO_TESTS,
    read_line=_read_line,
    write_line=_write_line,
)
