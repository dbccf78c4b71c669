"""Verdicts on honest, wrong and forged programs by style of tests, made from HumanEval and MBPP.

Each canonical solution is judged by its tests as published and rewritten in other styles; so is a
program that changes what the solution returns, and so are forgeries that know nothing of it.

    python -m benchmarks.siege_code --data data --output siege_code.json
"""

import ast
import json
import pathlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.params.paths import CodeLimits
from pipeline_lib.problems.data_set import RawRow
from pipeline_lib.problems.row_parsers import humaneval_problem, mbpp_problem
from pipeline_lib.verify.code import CodeJudge
from pipeline_lib.verify.sandbox.tiers import open_tier

STRIDE = 15
"""Each style takes every 15th of the 1,138 problems."""
CHANGED = """
def _changed(value):
    if isinstance(value, bool): return not value
    if isinstance(value, (int, float, complex)): return value + 1
    if isinstance(value, str): return value + '!'
    if isinstance(value, (list, tuple)): return type(value)([*value, 0])
    return 'changed'
_right = {name}
def {name}(*args, **kwargs): return _changed(_right(*args, **kwargs))
"""
FORGERIES = {
    "equal to all": "class E(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\n"
    "def {name}(*a, **k): return E()\n",
    "object": "class E:\n    def __getattr__(self, n): return lambda *a, **k: True\n"
    "    def __eq__(self, o): return True\n    def __sub__(self, o): return 0\n"
    "def {name}(*a, **k): return E()\n",
    "not a number": "def {name}(*a, **k): return float('nan')\n",
    "nothing": "def {name}(*a, **k): return None\n",
    "exit": "import os\ndef {name}(*a, **k): os._exit(0)\n",
    "system exit": "import sys\ndef {name}(*a, **k): sys.exit(0)\n",
    "end of iteration": "def {name}(*a, **k): raise StopIteration\n",
    "failed assert": "def {name}(*a, **k): raise AssertionError\n",
    "lent": "def {name}(*a, **k): return a[0] if a else k\n",
    "numpy": "import numpy as np\ndef {name}(*a, **k): return np.array([])\n",
}
Style = Callable[[CodeGold], str]


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _body(gold: CodeGold) -> str:
    """The tests as statements that call the function by its name."""
    called = f"\ncheck({gold.entry_point})\n" if "def check(" in gold.tests else ""
    return gold.tests + called


class _Assertions(ast.NodeTransformer):
    """``assert a == b`` as ``{function}(a, b)``."""

    def __init__(self, function: str) -> None:
        self._function = function

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:  # type: ignore[explicit-override]
        match node.test:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                call = f"{self._function}({ast.unparse(left)}, {ast.unparse(right)})"
                return ast.parse(call).body[0]
            case _:
                return node


def _asserted_by(function: str, gold: CodeGold) -> str:
    return ast.unparse(_Assertions(function).visit(ast.parse(_body(gold))))


STYLES: dict[str, Style] = {
    "published": lambda gold: gold.tests,
    "test function": lambda gold: f"def test_it():\n{_indented(_body(gold))}",
    "unittest": lambda gold: (
        "import unittest\nclass TestIt(unittest.TestCase):\n    def test_it(self):\n"
        + _indented(_indented(_asserted_by("self.assertEqual", gold)))
    ),
    "numpy": lambda gold: (
        "import numpy as np\ndef same(a, b):\n    assert a == b or np.allclose(a, b)\n"
        + _asserted_by("same", gold)
    ),
    "pytest": lambda gold: f"import pytest\ndef test_it():\n{_indented(_body(gold))}",
    "no assert": lambda gold: (
        "def same(a, b):\n    if a != b:\n        raise ValueError\n" + _asserted_by("same", gold)
    ),
    "coroutine": lambda gold: (
        f"import asyncio\nasync def main():\n{_indented(_body(gold))}asyncio.run(main())\n"
    ),
}
WRITTEN: dict[str, str] = {
    "fenced": "So:\n\n```python\n{}\n```\n",
    "thought": "<think>\n```python\ndef draft(): pass\n```\n</think>\n```python\n{}\n```\n",
    "bare": "{}",
}


def golds(folder: pathlib.Path) -> Iterator[tuple[CodeGold, str]]:
    """Gold and canonical solution of some problems."""
    for path, make in (
        ("humaneval/HumanEval.jsonl", humaneval_problem),
        ("mbpp/mbpp.jsonl", mbpp_problem),
    ):
        lines = (folder / path).read_text(encoding="utf-8").splitlines()
        for number in range(0, len(lines), STRIDE):
            row = RawRow(fields=json.loads(lines[number]), where=path, index=number)
            problem = make(row, id_prefix="", source=path)
            if isinstance(problem.gold, CodeGold) and problem.solution is not None:
                yield problem.gold, problem.solution


def cases(folder: pathlib.Path) -> Iterator[tuple[str, str, CodeGold, str]]:
    """Class, style, gold and text of each case."""
    for number, (gold, solution) in enumerate(golds(folder)):
        for style, rewritten in STYLES.items():
            styled = replace(gold, tests=rewritten(gold))
            written = list(WRITTEN.values())[number % len(WRITTEN)]
            yield "honest", style, styled, written.format(solution)
            changed = solution + CHANGED.format(name=gold.entry_point)
            yield "wrong", style, styled, written.format(changed)
            name, forgery = list(FORGERIES.items())[number % len(FORGERIES)]
            yield "forged", f"{style}, {name}", styled, forgery.format(name=gold.entry_point)


def main() -> None:
    """Judge all cases, print counts by class and style, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of both data sets")
    add_output(parser)
    arguments = parser.parse_args()
    counts: dict[tuple[str, str], Counter[bool | None]] = {}
    with closing(CodeJudge(open_tier(CodeLimits(timeout_s=5)))) as judge:
        for kind, style, gold, text in cases(arguments.data):
            verdict = judge.judge(gold, text)
            key = (kind, style.partition(",")[0])
            counts.setdefault(key, Counter())[verdict.lenient] += 1
            if verdict.lenient is not (kind == "honest"):
                print(f"  {kind} {style} {gold.entry_point}: {verdict.lenient} {verdict.detail}")
    print(f"{'class':8}{'style':16}{'right':>8}{'wrong':>8}{'null':>8}")
    for (kind, style), found in sorted(counts.items()):
        print(f"{kind:8}{style:16}{found[True]:8}{found[False]:8}{found[None]:8}")
    rows = [
        {"class": kind, "style": style, "right": n[True], "wrong": n[False], "null": n[None]}
        for (kind, style), n in sorted(counts.items())
    ]
    write_results(arguments.output, rows)


if __name__ == "__main__":
    main()
