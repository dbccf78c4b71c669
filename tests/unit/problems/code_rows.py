"""Rows of code data sets in their published formats, with a right and a wrong program for each.

The 20 problems were made up here. A wrong program agrees with the right one on the inputs that the row shows (``base``)
and differs on one of the others (``plus``), so that only a test can tell them apart.
"""

import base64
import json
import pathlib
import pickle
import textwrap
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Function:
    """A made-up function: ``head`` and a right or a wrong body."""

    head: str
    task: str
    right: str
    wrong: str
    base: Sequence[list[Any]]
    plus: Sequence[list[Any]]
    atol: float = 0
    beside: str = ""

    @property
    def name(self) -> str:
        return self.head.partition("(")[0]

    @property
    def prompt(self) -> str:
        """As in HumanEval: the head with its docstring."""
        return f'{self.beside}def {self.head}:\n    """{self.task}"""\n'

    def source(self, body: str) -> str:
        return f"{self.beside}def {self.head}:\n{_indented(body)}"

    def results(self, inputs: Sequence[list[Any]]) -> list[Any]:
        names: dict[str, Any] = {}
        exec(self.source(self.right), names)
        return [names[self.name](*json.loads(json.dumps(one))) for one in inputs]


def _indented(body: str) -> str:
    return textwrap.indent(textwrap.dedent(body).strip("\n") + "\n", "    ")


FUNCTIONS = [
    Function(
        head="widest_step(heights)",
        task="The largest difference of two neighbours; 0 if there are none.",
        right="return max((abs(a - b) for a, b in zip(heights, heights[1:])), default=0)",
        wrong="return max((b - a for a, b in zip(heights, heights[1:])), default=0)",
        base=[[[1, 5, 2]], [[3]]],
        plus=[[[]], [[9, 1, 2]], [list(range(0, 3000, 7))]],
    ),
    Function(
        head="shelf_price(prices, share)",
        task="The sum of the prices after a rebate of this share.",
        right="return sum(prices) * (1 - share)",
        wrong="return round(sum(prices) * (1 - share), 2)",
        base=[[[1.5, 2.5], 0.5], [[10.0], 0.25]],
        plus=[[[0.333], 0.1], [[], 0.1]],
    ),
    Function(
        head="initials(name)",
        task="The first letters of the parts of a name, in capitals, each with a dot.",
        right='return "".join(part[:1].upper() + "." for part in name.split())',
        wrong='return "".join(part[:1].upper() + "." for part in name.split(" "))',
        base=[["ada lovelace"], ["noether"]],
        plus=[["emmy  noether"], [""], [" sofja kowalewskaja\n"]],
    ),
    Function(
        head="turned(items, steps)",
        task="The list with its last items moved to the front, one a step.",
        right="""
            steps = steps % len(items) if items else 0
            return items[len(items) - steps:] + items[:len(items) - steps]
        """,
        wrong="return items[len(items) - steps:] + items[:len(items) - steps]",
        base=[[[1, 2, 3], 1], [[1, 2], 2]],
        plus=[[[1, 2, 3], 4], [[], 3], [["a", "b"], 5]],
    ),
    Function(
        head="rows_of(names, width)",
        task="The names in rows of this width; the last row may be shorter.",
        right="return [names[n:n + width] for n in range(0, len(names), width)]",
        wrong="return [names[n:n + width] for n in range(0, len(names) - width + 1, width)]",
        base=[[["a", "b", "c", "d"], 2], [["a"], 1]],
        plus=[[["a", "b", "c"], 2], [[], 3]],
    ),
    Function(
        head="letters(text)",
        task="How often each letter is there, capital or not.",
        right="""
            counts = {}
            for letter in text.lower():
                if letter.isalpha():
                    counts[letter] = counts.get(letter, 0) + 1
            return counts
        """,
        wrong="""
            counts = {}
            for letter in text:
                if letter.isalpha():
                    counts[letter] = counts.get(letter, 0) + 1
            return counts
        """,
        base=[["a cab"], [""]],
        plus=[["Anna"], ["12!"]],
    ),
    Function(
        head="runner_up(values)",
        task="The second largest of the different values, or None.",
        right="""
            found = sorted(set(values))
            return found[-2] if len(found) > 1 else None
        """,
        wrong="""
            found = sorted(values)
            return found[-2] if len(found) > 1 else None
        """,
        base=[[[3, 1, 2]], [[5]]],
        plus=[[[3, 3, 1]], [[]], [[2, 2]]],
    ),
    Function(
        head="leap_years(first, last)",
        task="The number of leap years from the first to the last year.",
        right="return sum(y % 4 == 0 and (y % 100 != 0 or y % 400 == 0) for y in range(first, last + 1))",
        wrong="return sum(y % 4 == 0 for y in range(first, last + 1))",
        base=[[2001, 2008], [1999, 2000]],
        plus=[[1896, 1904], [1600, 2400], [5, 4]],
    ),
    Function(
        head="depth(text)",
        task="How deep the brackets are nested; -1 if one has no partner.",
        right="""
            level = deepest = 0
            for sign in text:
                level += {"(": 1, ")": -1}.get(sign, 0)
                deepest = max(deepest, level)
                if level < 0:
                    return -1
            return -1 if level else deepest
        """,
        wrong="""
            level = deepest = 0
            for sign in text:
                level += {"(": 1, ")": -1}.get(sign, 0)
                deepest = max(deepest, level)
            return -1 if level else deepest
        """,
        base=[["(())"], ["(()"]],
        plus=[[")("], ["(" * 40 + ")" * 40]],
    ),
    Function(
        head="middle(values)",
        task="Sorts the list in place and returns the item in its middle, the upper one of two.",
        right="""
            values.sort()
            return values[len(values) // 2]
        """,
        wrong="return values[len(values) // 2]",
        base=[[[1, 2, 3]], [[4]]],
        plus=[[[3, 1, 2]], [[9, 1, 8, 2]]],
    ),
    Function(
        head="running_mean(values)",
        task="The mean of all values up to each one.",
        right="return [sum(values[:n]) / n for n in range(1, len(values) + 1)]",
        wrong="return [sum(values[:n]) // n for n in range(1, len(values) + 1)]",
        base=[[[2, 2, 2]], [[]]],
        plus=[[[1, 2]], [[0.1, 0.2, 0.3]]],
    ),
    Function(
        head="shifted(word, steps)",
        task="Every small letter of the word moved on in the alphabet, round its end.",
        right='return "".join(chr((place(letter) + steps) % 26 + 97) for letter in word)',
        wrong='return "".join(chr(place(letter) + steps + 97) for letter in word)',
        base=[["abc", 1], ["", 5]],
        plus=[["xyz", 3], ["a", -1]],
        beside='def place(letter):\n    """0 for a."""\n    return ord(letter) - 97\n\n\n',
    ),
    Function(
        head="digit_product(number)",
        task="The product of the digits that are not 0; of 0 it is 0.",
        right="""
            product = 1 if number else 0
            for digit in str(number):
                product *= int(digit) or 1
            return product
        """,
        wrong="""
            product = 1 if number else 0
            for digit in str(number):
                product *= int(digit)
            return product
        """,
        base=[[123], [0]],
        plus=[[105], [10**30 + 7]],
    ),
    Function(
        head="joined(spans)",
        task="Spans [start, end] in order, of which those that meet are one.",
        right="""
            found = []
            for start, end in sorted(spans):
                if found and start <= found[-1][1]:
                    found[-1][1] = max(found[-1][1], end)
                else:
                    found.append([start, end])
            return found
        """,
        wrong="""
            found = []
            for start, end in sorted(spans):
                if found and start <= found[-1][1]:
                    found[-1][1] = end
                else:
                    found.append([start, end])
            return found
        """,
        base=[[[[1, 3], [2, 5]]], [[[4, 5], [1, 2]]]],
        plus=[[[[1, 9], [2, 3]]], [[]]],
    ),
    Function(
        head="roman(number)",
        task="The number, at most 39, in Roman numerals.",
        right="""
            text = ""
            for value, sign in ((10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
                text += number // value * sign
                number %= value
            return text
        """,
        wrong="""
            text = ""
            for value, sign in ((10, "X"), (5, "V"), (1, "I")):
                text += number // value * sign
                number %= value
            return text
        """,
        base=[[3], [27]],
        plus=[[4], [39]],
    ),
    Function(
        head="is_ladder(words)",
        task="True if each word differs from the one before in exactly one letter.",
        right="""
            pairs = zip(words, words[1:])
            return all(len(a) == len(b) and sum(x != y for x, y in zip(a, b)) == 1 for a, b in pairs)
        """,
        wrong="""
            pairs = zip(words, words[1:])
            return all(len(a) == len(b) and sum(x != y for x, y in zip(a, b)) <= 1 for a, b in pairs)
        """,
        base=[[["cat", "cot", "cog"]], [["cat", "dog"]]],
        plus=[[["cat", "cat"]], [[]], [["a", "ab"]]],
    ),
    Function(
        head="cheapest(grid)",
        task="The least sum on a way from the first to the last cell, to the right or down.",
        right="""
            costs = [0] + [float("inf")] * (len(grid[0]) - 1)
            for row in grid:
                for n, cost in enumerate(row):
                    costs[n] = cost + min(costs[n], costs[n - 1] if n else costs[n])
            return costs[-1]
        """,
        wrong="""
            row = column = 0
            total = grid[0][0]
            while (row, column) != (len(grid) - 1, len(grid[0]) - 1):
                down = grid[row + 1][column] if row + 1 < len(grid) else float("inf")
                right = grid[row][column + 1] if column + 1 < len(grid[0]) else float("inf")
                total += min(down, right)
                row, column = (row + 1, column) if down < right else (row, column + 1)
            return total
        """,
        base=[[[[1, 2], [3, 4]]], [[[7]]]],
        plus=[[[[1, 2, 9], [3, 9, 9], [1, 1, 1]]]],
    ),
    Function(
        head="coins(amount, values)",
        task="The least number of coins of these values for the amount; -1 if there is none.",
        right="""
            least = [0] + [None] * amount
            for n in range(1, amount + 1):
                before = [least[n - v] for v in values if v <= n and least[n - v] is not None]
                least[n] = min(before) + 1 if before else None
            return -1 if least[amount] is None else least[amount]
        """,
        wrong="""
            count = 0
            for value in sorted(values, reverse=True):
                count += amount // value
                amount %= value
            return -1 if amount else count
        """,
        base=[[16, [1, 5, 10]], [3, [2]]],
        plus=[[6, [1, 3, 4]], [0, [5]], [500, [7, 11]]],
    ),
    Function(
        head="factors(number)",
        task="All pairs of numbers with this product, the smaller one first.",
        right="return [(n, number // n) for n in range(1, number + 1) if number % n == 0 and n * n <= number]",
        wrong="return [(n, number // n) for n in range(1, number + 1) if number % n == 0 and n * n < number]",
        base=[[6], [10]],
        plus=[[9], [1]],
    ),
    Function(
        head="left_over(amount, half, time)",
        task="What is left of the amount after this time if it halves in `half`.",
        right="return amount * 0.5 ** (time / half)",
        wrong="return amount * 0.5 ** (time // half)",
        base=[[8.0, 2, 4], [1.0, 3, 3]],
        plus=[[8.0, 2, 3], [5.5, 7, 1]],
        atol=1e-4,
    ),
]

Rows = list[tuple[Row, str, str]]
"""A row, a right and a wrong program."""


def humaneval_plus() -> Rows:
    """As evalplus: inputs and a canonical solution."""
    return [
        (
            {
                "task_id": f"HumanEval/{number}",
                "prompt": one.prompt,
                "contract": '\n    assert True, "invalid inputs" # $_CONTRACT_$\n',
                "canonical_solution": _indented(one.right),
                "entry_point": one.name,
                "base_input": list(one.base),
                "plus_input": list(one.plus),
                "atol": one.atol,
            },
            one.source(one.right),
            one.source(one.wrong),
        )
        for number, one in enumerate(FUNCTIONS)
    ]


def mbpp_plus() -> Rows:
    """As evalplus, with the numbers of tasks that MBPP does not have."""
    return [
        (
            {
                "task_id": f"Mbpp/{2000 + number}",
                "prompt": f'"""\n{one.task}\n{_assert(one)}\n"""\n',
                "entry_point": one.name,
                "canonical_solution": f"\n{right}",
                "base_input": list(one.base),
                "plus_input": list(one.plus),
                "atol": one.atol,
                "contract": "",
                "assertion": f"\n{_assert(one)}\n",
            },
            right,
            wrong,
        )
        for number, one in enumerate(FUNCTIONS)
        for right, wrong in [(one.source(one.right), one.source(one.wrong))]
    ]


def _assert(one: Function) -> str:
    arguments = ", ".join(map(repr, one.base[0]))
    return f"assert {one.name}({arguments}) == {one.results(one.base)[0]!r}"


_COMPARED = """import numpy as np

def is_floats(x) -> bool:
    if isinstance(x, (list, tuple)) and x:
        return all(isinstance(one, float) for one in x)
    return isinstance(x, float)

def assertion(out, exp, atol):
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if out != exp and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert out == exp, f"out: {out}, exp: {exp}"
"""


def _loop(one: Function, called: str) -> str:
    inputs = [*one.base, *one.plus]
    return (
        f"inputs = {inputs!r}\nresults = {one.results(inputs)!r}\n"
        "for i, (inp, exp) in enumerate(zip(inputs, results)):\n"
        f"    assertion({called}(*inp), exp, {one.atol})\n"
    )


def humaneval_plus_hub() -> Rows:
    """As on the hub: ``test`` in place of inputs."""
    return [
        (
            {
                **{
                    key: row[key]
                    for key in ("task_id", "prompt", "canonical_solution", "entry_point")
                },
                "test": f"\n{_COMPARED}\n\ndef check(candidate):\n{_indented(_loop(one, 'candidate'))}",
            },
            right,
            wrong,
        )
        for (row, right, wrong), one in zip(humaneval_plus(), FUNCTIONS, strict=True)
    ]


def mbpp_plus_hub() -> Rows:
    """As on the hub: fields of sanitized MBPP, and ``test``."""
    return [
        (
            {
                "task_id": 2000 + number,
                "code": right,
                "prompt": one.task,
                "source_file": "made.ipynb",
                "test_imports": [],
                "test_list": [_assert(one)],
                "test": f"{_COMPARED}\n\n{_loop(one, one.name)}",
            },
            right,
            wrong,
        )
        for number, one in enumerate(FUNCTIONS)
        for right, wrong in [(one.source(one.right), one.source(one.wrong))]
    ]


def packed(text: str) -> str:
    """As private tests of LiveCodeBench are published."""
    return base64.b64encode(zlib.compress(pickle.dumps(text))).decode()


def _method(one: Function, body: str) -> str:
    head = one.head.replace("(", "(self, ", 1)
    return (
        f"{one.beside}class Solution:\n    def {head}:\n{textwrap.indent(_indented(body), '    ')}"
    )


def _program(one: Function, body: str) -> str:
    return (
        f"import json\nimport sys\n\n{one.source(body)}\n"
        f"print(json.dumps({one.name}(*map(json.loads, sys.stdin))))"
    )


HALF = len(FUNCTIONS) // 2
"""Functions come first, programs that read standard input after them."""


def livecodebench() -> Rows:
    """Ten methods, as of LeetCode, and ten programs; every other row has packed private tests."""
    rows = []
    for number, one in enumerate(FUNCTIONS):
        is_method = number < HALF
        testtype = "functional" if is_method else "stdin"
        public, private = (
            [
                {
                    "input": "\n".join(map(json.dumps, given)) + ("" if is_method else "\n"),
                    "output": json.dumps(wanted) + ("" if is_method else "\n"),
                    "testtype": testtype,
                }
                for given, wanted in zip(inputs, one.results(inputs), strict=True)
            ]
            for inputs in (one.base, one.plus)
        )
        starter = _method(one, "").rstrip().removeprefix(one.beside) + "\n        "
        row = {
            "question_title": one.name,
            "question_content": f"{one.task}\n\nEach argument is a line of JSON.",
            "platform": "leetcode" if is_method else "atcoder",
            "question_id": f"made_{number}",
            "contest_id": "made",
            "contest_date": f"2024-{1 + number // 2:02}-15T00:00:00",
            "starter_code": starter if is_method else "",
            "difficulty": "easy",
            "public_test_cases": json.dumps(public),
            "private_test_cases": (packed if number % 2 else str)(json.dumps(private)),
            "metadata": json.dumps({"func_name": one.name} if is_method else {}),
        }
        make = _method if is_method else _program
        rows.append((row, make(one, one.right), make(one, one.wrong)))
    return rows


def apps() -> Rows:
    """Ten functions and ten programs; results of every other function stand in a list."""
    rows = []
    for number, one in enumerate(FUNCTIONS):
        is_function = number < HALF
        make = Function.source if is_function else _program
        right, wrong = make(one, one.right), make(one, one.wrong)
        inputs = [*one.base, *one.plus]
        results = one.results(inputs)
        tests: Row = {
            "inputs": ["\n".join(map(json.dumps, given)) + "\n" for given in inputs],
            "outputs": [json.dumps(wanted) + "\n" for wanted in results],
        }
        if is_function:
            shown = [[wanted] for wanted in results] if number % 2 else results
            tests = {"fn_name": one.name, "inputs": inputs, "outputs": shown}
        row = {
            "problem_id": number,
            "question": one.task,
            "solutions": json.dumps([right]),
            "input_output": json.dumps(tests),
            "difficulty": "introductory",
            "url": "",
            "starter_code": f"def {one.head}:\n\t" if is_function else "",
        }
        rows.append((row, right, wrong))
    return rows


FORMATS = {
    "humaneval-plus": ("HumanEvalPlus-v0.1.10.jsonl", humaneval_plus),
    "mbpp-plus": ("MbppPlus-v0.2.0.jsonl", mbpp_plus),
    "humaneval-plus, hub": ("test.jsonl", humaneval_plus_hub),
    "mbpp-plus, hub": ("test.jsonl", mbpp_plus_hub),
    "livecodebench": ("test6.jsonl", livecodebench),
    "apps": ("test.jsonl", apps),
}
"""File and rows by the name of the data set, and the form."""


def write_rows(path: pathlib.Path, rows: Sequence[Row]) -> None:
    """Write rows as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
