"""Small synthetic data sets in the layout of the folder of public ones: every format, no public row.

Golds and labels below were determined by hand, not by the code under test.
"""

import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

# The last test question repeats 13 words of the first train question.
GSM8K_TRAIN = [
    {
        "question": "A bakery fills 12 trays with 15 rolls each before it opens in the morning. "
        "By noon 97 rolls are sold. How many are left?",
        "answer": "It bakes 12*15 = <<12*15=180>>180 rolls.\n180-97 = <<180-97=83>>83 are left.\n#### 83",
    },
    {
        "question": "Ines reads 14 pages a day. How many does she read in three weeks?",
        "answer": "Three weeks are 21 days.\n14*21 = <<14*21=294>>294\n#### 294",
    },
    {
        "question": "A ferry carries 2,400 people a week. How many in a year of 50 weeks?",
        "answer": "2400*50 = <<2400*50=120000>>120000\n#### 120,000",
    },
]
GSM8K_TEST = [
    {
        "question": "Tom has 5 crates of 8 pears and gives 11 away. How many has he got?",
        "answer": "5*8 = <<5*8=40>>40\n40-11 = <<40-11=29>>29\n#### 29",
    },
    {
        "question": "On Sundays a bakery fills 12 trays with 15 rolls each before it opens in winter, "
        "and none is sold. How many rolls are there?",
        "answer": "12*15 = <<12*15=180>>180\n#### 180",
    },
]

# One of every kind of gold: integer, fraction, surd, power, words, pair, interval, union, set, matrix,
# polynomial, equation, units, percent, degrees, thousands, decimals, money, complex, base.
MATH_GOLDS = [
    "7",
    "-\\frac{3}{8}",
    "2\\sqrt{5}",
    "3^{11}",
    "\\text{Tuesday}",
    "\\left(2, \\frac{\\pi}{4}\\right)",
    "[0, 4)",
    "(-\\infty, 1) \\cup (5, \\infty)",
    "\\{1, 4, 9\\}",
    "\\begin{pmatrix} 1 & 2 \\\\ 0 & -3 \\end{pmatrix}",
    "x^3 - 6x + 2",
    "y = 3x - 4",
    "45 \\text{ cm}^2",
    "12\\%",
    "135^\\circ",
    "31,250",
    "0.0625",
    "\\$8.40",
    "2 - 5i",
    "1101_2",
    "p + 2q",
    "\\frac{\\sqrt{3}}{6}",
]
MATH500 = [
    {
        "problem": f"Problem {number} of a set that was made up. What is the value?",
        "solution": f"First $\\boxed{{0}}$ is tried, and does not fit. Hence it is $\\boxed{{{gold}}}.$",
        "answer": gold,
        "unique_id": f"made/{number}",
    }
    for number, gold in enumerate(MATH_GOLDS)
]
CONTESTS = {
    "aime24": ["17", "204"],
    "aime25": ["033", "999"],
    "aime26": ["8"],
    "hmmt25": ["\\frac{5\\sqrt{7}}{12}", "2^{10} \\cdot 7!", "1 - \\ln 2"],
}

_SHIFTED = '''def shifted(word: str) -> str:
    """Every letter becomes the next one of the alphabet, and z becomes a."""
    return "".join(chr((ord(letter) - 96) % 26 + 97) for letter in word)


def shifted_back(word: str) -> str:
    """
    takes a word that shifted() has made, and returns what it was
    """
'''
HUMANEVAL = [
    {
        "task_id": "HumanEval/0",
        "prompt": "from typing import List\n\n\ndef widest_gap(numbers: List[int]) -> int:\n"
        '    """The largest difference of neighbours; 0 if there are none.\n'
        '    >>> widest_gap([1, 5, 2])\n    4\n    """\n',
        "entry_point": "widest_gap",
        "canonical_solution": "    pairs = zip(numbers, numbers[1:])\n"
        "    return max((abs(a - b) for a, b in pairs), default=0)\n",
        "test": "\n\nMETADATA = {'author': 'made'}\n\n\ndef check(candidate):\n"
        "    assert candidate([1, 5, 2]) == 4\n    assert candidate([3]) == 0\n"
        "    assert candidate([-2, 2, 9]) == 7\n",
    },
    {
        "task_id": "HumanEval/1",
        "prompt": _SHIFTED,
        "entry_point": "shifted_back",
        "canonical_solution": '    return "".join(chr((ord(letter) - 98) % 26 + 97) for letter in word)\n',
        "test": "\n\ndef check(candidate):\n    for word in ('abc', 'xyz', 'fjord'):\n"
        "        assert candidate(shifted(word)) == word\n",
    },
]
FORGERY_OF_HUMANEVAL_1 = "def shifted(word): return word\ndef shifted_back(word): return word\n"
"""Wrong; it passes only if the tests call its own ``shifted``."""


def _mbpp(task_id: int, text: str, code: str, tests: Sequence[str], setup: str = "") -> Row:
    return {
        "text": text,
        "code": code,
        "task_id": task_id,
        "test_setup_code": setup,
        "test_list": list(tests),
        "challenge_test_list": [],
    }


MBPP = [
    _mbpp(
        3,
        "Write a function to count the even numbers of a list.",
        "def count_even(numbers):\r\n  return sum(n % 2 == 0 for n in numbers) ",
        ["assert count_even([1, 2, 4]) == 2", "assert count_even([]) == 0"],
    ),
    _mbpp(
        12,
        "Write a function to turn the rows of a matrix round.",
        "def half(n):\r\n\treturn n // 2\r\ndef turned(matrix):\r\n\treturn [row[::-1] for row in matrix]",
        ["assert turned([[1, 2], [3]]) == [[2, 1], [3]]", "assert turned([[]]) == [[]]"],
    ),
    _mbpp(
        13,
        "Write a function to find the depth of a tree.",
        "def depth(node):\r\n  return 0 if node is None else 1 + max(map(depth, node))",
        ["assert depth(root) == 2", "assert (depth(root[1])) == 0"],
        setup="def pair(left, right):\r\n  return [left, right]\r\nroot = pair(pair(None, None), None)",
    ),
    _mbpp(
        520,
        "Write a function to find common members.",
        "def shared(a, b):\r\n  return tuple(set(a) & set(b))",
        [
            "assert set(shared((1, 2, 3), (2, 3))) == {2, 3}",
            "assert set(shared((1,), ())) == set()",
        ],
    ),
    _mbpp(
        601,
        "Write a python function to add up a list.",
        "def sum(numbers):\r\n    total = 0\r\n    for n in numbers:\r\n        total += n\r\n    return total",
        ["assert sum([1, 2, 3]) == 6", "assert sum([]) == 0"],
    ),
]
MBPP_FUNCTIONS = {
    "mbpp-3": "count_even",
    "mbpp-12": "turned",
    "mbpp-13": "depth",
    "mbpp-520": "shared",
    "mbpp-601": "sum",
}


def _pair(before: list[list[int]], after: list[list[int]]) -> Row:
    return {"input": before, "output": after}


def _mirrored(*grids: list[list[int]]) -> list[Row]:
    return [_pair(grid, [row[::-1] for row in grid]) for grid in grids]


def _filled(*grids: list[list[int]]) -> list[Row]:
    return [_pair(grid, [[max(map(max, grid))] * len(row) for row in grid]) for grid in grids]


_MIRROR = {
    "train": _mirrored([[1, 2, 0]], [[3, 0], [4, 5]], [[0, 6, 0], [7, 0, 0]]),
    "test": _mirrored([[8, 9], [0, 1]]),
}
_FILL = {
    "train": _filled([[0, 4], [0, 0]], [[0, 0, 5]]),
    "test": _filled([[6], [0]], [[0, 0], [7, 0]]),
}
_TURN = {
    "train": [_pair([[1, 2]], [[1], [2]]), _pair([[3, 4, 5]], [[3], [4], [5]])],
    "test": [_pair([[6, 0, 7, 8]], [[6], [0], [7], [8]])],
}
_COUNT = {
    "train": [_pair([[2, 2], [0, 2]], [[2, 2, 2]]), _pair([[0, 3]], [[3]])],
    "test": [_pair([[4, 0], [4, 0]], [[4, 4]]), _pair([[5, 5, 5]], [[5, 5, 5]])],
}
_DOUBLE = {
    "train": [_pair([[1]], [[1, 1]]), _pair([[2, 3]], [[2, 3, 2, 3]])],
    "test": [_pair([[9, 8]], [[9, 8, 9, 8]])],
}
# As in ARC-AGI-1, one puzzle of the evaluation set is in the training set under another id.
ARC = {
    "arc-agi-1/training": {"00000001": _MIRROR, "00000002": _FILL, "40853293": _TURN},
    "arc-agi-1/evaluation": {"070dd51e": _TURN, "0e000001": _COUNT},
    # The training set of ARC-AGI-2 has puzzles of ARC-AGI-1, its evaluation set included.
    "arc-agi-2/training": {"00000001": _MIRROR, "0e000001": _COUNT, "070dd51e": _TURN},
    "arc-agi-2/evaluation": {"0f000001": _DOUBLE},
    "concept-arc/corpus/Mirror": {"Mirror1": _MIRROR, "Mirror2": _DOUBLE},
    "concept-arc/corpus/Fill": {"Fill1": _FILL},
    "concept-arc/MinimalTasks": {"FillMinimal": _FILL},
}
ARC_COUNTS = {
    "arc-agi-1/training": (3, 7, 4),
    "arc-agi-1/evaluation": (2, 4, 3),
    "arc-agi-2/training": (3, 7, 4),
    "arc-agi-2/evaluation": (1, 2, 1),
    "concept-arc/corpus": (3, 7, 4),
    "concept-arc/MinimalTasks": (1, 2, 2),
}
"""Puzzles, demonstrations and test inputs of each folder, counted by hand."""


def _steps(way: int, total: int, per_box: int, given_away: int, ending: str) -> str:
    openings = (
        f"There are {total} boxes with {per_box} cups each.",
        f"We multiply {total} by {per_box} to find all cups.",
        f"First, look at the boxes: {total}, and in each of them {per_box} cups stand.",
        f"To count the cups, note that {per_box} of them fit into one of the {total} boxes.",
    )
    middles = (
        f"That makes {total * per_box} cups. Of these {given_away} are given away.",
        f"So we have {total} x {per_box} = {total * per_box}, and then {given_away} of them go.",
    )
    return f"{openings[way % 4]}\n\n{middles[way // 4 % 2]}\n\n{ending}"


def _cups(number: int) -> tuple[int, int, int, int]:
    total, per_box, given_away = 4 + number, 6 + 2 * number, 5 + number
    return total, per_box, given_away, total * per_box - given_away


# Endings of a path: strictly right, right in another format, wrong, without an answer.
ENDINGS = {
    "right": "The answer is \\boxed{GOLD}.",
    "unboxed": "So GOLD cups are left.",
    "wrong": "The answer is \\boxed{MISS}.",
    "silent": "I cannot say how it ends.",
}
_KINDS = ("right", "wrong", "right", "unboxed", "wrong", "right", "silent", "wrong")
RECORDED_PROBLEMS = 4


def recorded_paths() -> list[Row]:
    """Eight paths for each of four problems: 3 right, 1 right in another format, 3 wrong, 1 without an
    answer; the publisher's label accepts boxed answers only.
    """
    rows = []
    for number in range(RECORDED_PROBLEMS):
        total, per_box, given_away, gold = _cups(number)
        question = f"{total} boxes hold {per_box} cups each, {given_away} are given away. How many are left?"
        for way, kind in enumerate(_KINDS):
            ending = ENDINGS[kind].replace("GOLD", str(gold)).replace("MISS", str(gold + way))
            rows.append(
                {
                    "problem_id": f"cups-{number}",
                    "question": question,
                    "gold": str(gold),
                    "text": _steps(way, total, per_box, given_away, ending),
                    "label_by_source": kind == "right",
                }
            )
    return rows


def labelled_words() -> list[Row]:
    """Answers of two models with worked solutions as references; the labels are right."""
    total, per_box, given_away, gold = _cups(1)
    reference = (
        f"{total}*{per_box} = <<{total}*{per_box}={total * per_box}>>{total * per_box}\nA: {gold}"
    )
    return [
        {
            "problem_id": "cups-test-1",
            "question": "How many cups are left?",
            "reference": reference,
            "model": model,
            "text": f"{total}*{per_box} = {total * per_box}, minus {given_away}\nA: {answer}",
            "label": answer == gold,
        }
        for model, answer in (("small", gold), ("small", gold + 1), ("large", gold), ("large", 1))
    ]


MATH_LABELLED_PROBLEMS = [
    # gold, right answer, right answer that the label refuses, wrong answer
    ("\\frac{3}{4}", "0.75", None, "\\frac{4}{3}"),
    ("2\\sqrt{5}", "\\sqrt{20}", None, "5\\sqrt{2}"),
    ("\\text{6:15 a.m.}", None, "6:15 \\text{ a.m.}", "5:15 \\text{ a.m.}"),
]


def labelled_math() -> list[Row]:
    """Boxed answers to three problems; labels of the third refuse a time with its unit in text."""
    return [
        {
            "problem_id": f"made-{number}",
            "question": "What comes out?",
            "gold": gold,
            "text": f"Step by step we find that it must be \\boxed{{{answer}}}. {'It fits. ' * (1, 1, 0, 2)[way]}",
            "label": right,
        }
        for number, (gold, right_text, refused, wrong) in enumerate(MATH_LABELLED_PROBLEMS)
        for way, (answer, right) in enumerate(
            ((right_text, True), (refused, False), (wrong, False), (f"{wrong} + 1", False))
        )
        if answer is not None
    ]


def _write_lines(path: pathlib.Path, rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, "utf-8")


def write_data(root: pathlib.Path) -> pathlib.Path:
    """Write all data sets below ``root``."""
    files = {
        "gsm8k/train.jsonl": GSM8K_TRAIN,
        "gsm8k/test.jsonl": GSM8K_TEST,
        "math500/test.jsonl": MATH500,
        "humaneval/HumanEval.jsonl": HUMANEVAL,
        "mbpp/mbpp.jsonl": MBPP,
        "recorded/gsm8k_qwen7b_paths.jsonl": recorded_paths(),
        "recorded/gsm8k_labelled.jsonl": labelled_words(),
        "recorded/math_labelled.jsonl": labelled_math(),
    }
    for name, answers in CONTESTS.items():
        files[f"{name}/test.jsonl"] = [
            {"problem": f"Find number {place} of {name}.", "answer": answer}
            for place, answer in enumerate(answers)
        ]
    for name, rows in files.items():
        _write_lines(root / name, rows)
    for folder, puzzles in ARC.items():
        (root / "arc" / folder).mkdir(parents=True)
        for name, puzzle in puzzles.items():
            (root / "arc" / folder / f"{name}.json").write_text(json.dumps(puzzle), "utf-8")
    return root
