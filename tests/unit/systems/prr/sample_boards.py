"""Sudoku and mazes by hand, in CSV files as they are published."""

import pathlib

HEADER = "source,question,answer,rating\n"

SOLVED = "123456789456789123789123456234567891567891234891234567345678912678912345912345678"
"""Row r starts with 1, 4, 7, 2, 5, 8, 3, 6, 9 and increments by one."""
SUDOKU = SOLVED[:40] + "." + SOLVED[41:80] + "0"
"""A blank in the middle, another in the last cell."""

MAZE = "S  # # G "
"""S and two blanks / wall, blank, wall / blank, G, blank."""
MAZE_SOLVED = "So #o# G "
"""The path goes right, then down twice."""


def write_csv(folder: pathlib.Path, **splits: list[tuple[str, str, str]]) -> pathlib.Path:
    """One file per split, one line per question, answer and rating."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in splits.items():
        lines = [f"made,{question},{answer},{rating}\n" for question, answer, rating in rows]
        (folder / f"{split}.csv").write_text(HEADER + "".join(lines), "utf-8")
    return folder
