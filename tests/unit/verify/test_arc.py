"""ARC: the grid is found however it is written, and only the gold itself is right."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.grids import Grid, grid_json, grid_text
from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.arc import MAX_SEARCHED_CHARS, judge
from tests.unit.synthetic_grids import grids

GOLD = ArcGold(output=((1, 2, 0), (0, 3, 4)))
ROWS = "1 2 0\n0 3 4"
OTHER = "9 9 9\n9 9 9"


def fenced(content: str, language: str = "") -> str:
    return f"```{language}\n{content}\n```"


ASKED = [
    fenced(ROWS),
    fenced(ROWS, "text"),
    f"~~~\n{ROWS}\n~~~",
    f"The rule is a flip.\n\n{fenced(ROWS)}\n\nDone.",
    f"First\n{fenced(OTHER)}\nno, rather\n{fenced(ROWS)}",
    f"<think>{fenced(OTHER)}</think>\n{fenced(ROWS)}",
    fenced(f"\n{ROWS}  \n\n"),
    fenced("1\t2  0\n 0 3 4"),
    "\ufeff" + fenced(ROWS).replace("\n", "\r\n"),
    fenced("\uff11 \uff12\u3000\uff10\n\u0660 \u0663 \u0664"),
    f"[[9, 9]]\n<answer>{OTHER}</answer>\n" + fenced(ROWS),
    f"<answer>\n{fenced(ROWS)}\n</answer>",
    f"{fenced(ROWS)}\n<answer>as above</answer>",
    "\ud800\0\ufffd\n" + fenced(ROWS),
]
"""Rows of spaced digits in the last fenced block."""


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        *((text, "fenced_rows") for text in ASKED),
        (fenced("[[1, 2, 0], [0, 3, 4]]", "json"), "fenced"),
        (fenced("120\n034"), "fenced"),
        (fenced("1,2,0\n0,3,4"), "fenced"),
        (fenced(f"Output:\n{ROWS}"), "fenced"),
        (fenced("grid = [[1,2,0],[0,3,4]]", "python"), "fenced"),
        (f"```\n{ROWS}", "open_fence"),
        (f"{fenced(OTHER)}\nBetter:\n```\n{ROWS}\n", "open_fence"),
        (f"<answer>{ROWS}</answer>", "answer_tag"),
        (f"<answer>{OTHER}</answer> no: <answer>\n{ROWS}\n</answer>", "answer_tag"),
        (f"<answer>{ROWS}", "answer_tag"),
        (f"{fenced(OTHER)}\n<answer>{ROWS}</answer>", "answer_tag"),
        (f"{fenced('print(1)', 'python')}\n<answer>[[1,2,0],[0,3,4]]</answer>", "answer_tag"),
        ("It is [[1, 2, 0], [0, 3, 4]].", "lists"),
        ("[\n  [1, 2, 0],\n  [0, 3, 4]\n]", "lists"),
        ("[[1, 2, 0],\n [0, 3, 4],]", "lists"),
        ("[[1 2 0]\n [0 3 4]]", "lists"),
        (json.dumps({"output": [[1, 2, 0], [0, 3, 4]]}, indent=2), "lists"),
        (f"{OTHER}\n\nor [[1,2,0],[0,3,4]]", "lists"),
        (f"Output:\n{ROWS}", "rows"),
        (f"{OTHER}\n\n{ROWS}\nThat is all.", "rows"),
        (f"[[9, 9]]\n\n{ROWS}", "rows"),
        ("120\n034", "rows"),
        ("1, 2, 0\n0, 3, 4", "rows"),
        ("[1, 2, 0]\n[0, 3, 4]", "rows"),
        (f"{fenced(ROWS)}\n```\n```", "rows"),
        (f"Output: {fenced(ROWS)}", "open_fence"),
    ],
)
def test_the_right_grid_is_strict_in_the_format_of_the_prompt_alone(text, rule):
    """In another form it is right leniently, and the rule says where it stood."""
    verdict = judge(GOLD, text)
    assert (verdict.status, verdict.rule, verdict.lenient) == (Status.CORRECT, rule, True)
    assert verdict.strict is (rule == "fenced_rows")
    assert verdict.extracted == "[[1,2,0],[0,3,4]]"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (fenced("1 2 0\n0 3 5"), "1 cells differ, first row 2 column 3"),
        (fenced("1 2\n0 3"), "it is 2 rows of 2, not 2 rows of 3"),
        (fenced("1 2 0 0 3 4"), "it is 1 rows of 6"),
        (fenced(f"{ROWS}\n0 0 0"), "it is 3 rows of 3"),
        (fenced("1 2 0\n0 3"), "row 2 has 2 cells, row 1 has 3"),
        (fenced("1 2 0\n0 3 44"), "row 2 holds 44; a cell is one digit"),
        ("[[1, 2, 0], [0, 3, 04]]", "row 2 holds 04"),
        ("[[1, 2, 0], [0, 3, 10]]", "row 2 holds 10"),
        (fenced("\n".join(["0 0"] * 31)), "a grid has 31 entries"),
        (fenced(" ".join("0" * 31)), "row 1 has 31 entries"),
        ("[[], []]", "row 1 has 0 entries"),
        (f"```\n{ROWS[:-2]}", "row 2 has 2 cells"),
        (f"{fenced(ROWS)}\n{fenced(OTHER)}", "cells differ"),
        (fenced(f"{ROWS}\n{ROWS}"), "it is 4 rows of 3"),
        (fenced("1 2 0\n0 x 4\n0 3 4"), "it is 1 rows of 3"),
    ],
)
def test_wrong_grids_say_why(text, detail):
    """Digits in the form of a grid that are not the gold are wrong, with the reason."""
    verdict = judge(GOLD, text)
    assert (verdict.status, verdict.strict, verdict.lenient) == (Status.WRONG, False, False)
    assert detail in verdict.detail
    assert verdict.rule is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "no idea",
        "red blue\nblue red",
        fenced("a b\nc d"),
        fenced("-1 -2\n-3 -4"),
        "<answer></answer>",
        "[[\u00b9]]",
        "\0" * 50,
        "\ufffd\ufffd",
        "\ud800",
        "2 apples",
    ],
)
def test_no_grid_is_unparsed(text):
    """Text without digits in the form of a grid scores 0 as unparsed."""
    verdict = judge(GOLD, text)
    assert (verdict.status, verdict.strict, verdict.lenient) == (Status.UNPARSED, False, False)
    assert verdict.extracted is None


HOSTILE = {
    "brackets": "[" * 20_000,
    "deep nesting": "[" * 500_000 + "]" * 500_000,
    "lists never ended": "[[1]" * 250_000,
    "one list of 250,000": "[" + "[1]," * 250_000 + "]",
    "spaced brackets": "[ " * 500_000,
    "spaces": "1" + " " * 1_000_000 + "x",
    "spaces in lines": ("1" + " " * 198 + "x\n") * 5_000,
    "digits": "1" * 1_000_000,
    "rows": "1 2\n" * 250_000,
    "fenced rows": fenced("1 2\n" * 250_000),
    "fences": "```\n" * 250_000,
    "one long fence": "`" * 1_000_000,
    "long fences": ("`" * 1_000 + "\n") * 1_000,
    "open tags": "<answer>" * 125_000,
    "empty tags": "<answer></answer>" * 60_000,
    "fullwidth rows": "\uff11 \uff12\n" * 250_000,
    "characters that grow": "```\n" + "\ufdfa" * 1_000_000,
    "broken characters": "\ud800\0\ufffd" * 300_000,
    "carriage returns": "\r" * 1_000_000,
    "objects": '{"a":' * 200_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_only_wrong(name):
    """Megabytes, thousands of brackets and broken characters give an ordinary verdict of 0."""
    assert judge(GOLD, HOSTILE[name]).lenient is False


def test_long_reasoning_before_a_short_answer_is_read():
    """Of long prose only the end is searched; a fenced block is found anywhere."""
    assert judge(GOLD, "hm [[1]]\n" * 100_000 + fenced(ROWS)).strict
    assert judge(GOLD, fenced(ROWS) + "\nhm" * 100_000).strict
    assert judge(GOLD, "hm " * 100_000 + f"\n{ROWS}\n").rule == "rows"
    assert judge(GOLD, f"{ROWS}\n" + "hm " * MAX_SEARCHED_CHARS).status is Status.UNPARSED


def test_the_largest_grid_fits_with_a_cell_a_line():
    """30 by 30 cells, each on a line of its own, deeply indented, are read whole."""
    grid = ((7,) * 30,) * 30
    text = json.dumps({"a": {"output": grid}}, indent=3)
    assert judge(ArcGold(output=grid), text).lenient


@given(st.text() | st.text(alphabet="[]0123456789, \n`<answer>/\ufeff\r"))
def test_any_text_gets_a_verdict(text):
    """Judging is total."""
    assert judge(GOLD, text).lenient in {True, False}


def _numpy(grid: Grid) -> str:
    return "[" + "\n ".join(f"[{' '.join(map(str, row))}]" for row in grid) + "]"


RENDERINGS = {
    "asked": lambda grid: fenced(grid_text(grid)),
    "fenced JSON": lambda grid: fenced(grid_json(grid), "json"),
    "open fence": lambda grid: f"```\n{grid_text(grid)}",
    "tags": lambda grid: f"<answer>{grid_text(grid)}</answer>",
    "JSON": json.dumps,
    "indented JSON": lambda grid: json.dumps(grid, indent=4),
    "rows": grid_text,
    "rows without spaces": lambda grid: grid_text(grid).replace(" ", ""),
    "rows with commas": lambda grid: grid_text(grid).replace(" ", ", "),
    "numpy": _numpy,
}
renderings = st.sampled_from(sorted(RENDERINGS))
prose = st.sampled_from(["", "The rule: mirror it.", "Input 1 has [2, 3] cells.", fenced(OTHER)])


@given(grids(), renderings, prose)
def test_any_rendering_of_a_grid_is_found_again(grid, rendering, before):
    """Whatever the grid and the form, it is judged right, and strictly in the asked form alone."""
    text = RENDERINGS[rendering](grid)
    if rendering not in {"asked", "fenced JSON", "open fence", "tags"}:
        before = before.replace("`", "")
    verdict = judge(ArcGold(output=grid), f"{before}\n\n{text}")
    assert verdict.lenient
    assert verdict.strict is (rendering == "asked")
    assert verdict.extracted == grid_json(grid)


@given(grids(), renderings, st.data())
def test_any_change_is_wrong(grid, rendering, data):
    """One other cell, a row more or less, and the transposed shape are all wrong."""
    row = data.draw(st.integers(0, len(grid) - 1))
    column = data.draw(st.integers(0, len(grid[0]) - 1))
    colour = data.draw(st.integers(0, 9).filter(lambda c: c != grid[row][column]))
    changed = list(map(list, grid))
    changed[row][column] = colour
    others = [changed, [*grid, grid[-1]], grid[:-1], list(zip(*grid, strict=True))]
    for other in others:
        if other and tuple(map(tuple, other)) != grid:
            text = RENDERINGS[rendering](tuple(map(tuple, other)))
            verdict = judge(ArcGold(output=grid), text)
            assert (verdict.status, verdict.lenient) == (Status.WRONG, False)


@given(grids(min_side=2), renderings, st.data())
def test_a_cut_answer_is_never_the_whole(grid, rendering, data):
    """A text that ends at a token limit, before its last cell, is not right."""
    text = RENDERINGS[rendering](grid)
    last_cell = max(text.rfind(digit) for digit in "0123456789")
    cut = text[: data.draw(st.integers(0, last_cell))]
    assert judge(ArcGold(output=grid), cut).lenient is False
