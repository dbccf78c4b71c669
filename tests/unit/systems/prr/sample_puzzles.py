"""A hand-made ARC data set: two training puzzles and one test puzzle."""

import json
import pathlib

from pipeline_lib.systems.prr.data.arc_source import Subset, read_subset

MIRROR = {
    "train": [
        {"input": [[1, 2]], "output": [[2, 1]]},
        {"input": [[3, 0, 0], [0, 4, 5]], "output": [[0, 0, 3], [5, 4, 0]]},
    ],
    "test": [{"input": [[6, 7], [8, 9]], "output": [[7, 6], [9, 8]]}],
}
FILL = {
    "train": [{"input": [[4, 0], [0, 0]], "output": [[4, 4], [4, 4]]}],
    "test": [{"input": [[5, 0, 0]], "output": [[5, 5, 5]]}],
}
# The test puzzle; outputs are larger than inputs.
DOUBLE = {
    "train": [{"input": [[1]], "output": [[1, 1]]}, {"input": [[2]], "output": [[2, 2]]}],
    "test": [
        {"input": [[4, 5], [6, 8]], "output": [[4, 5, 4, 5], [6, 8, 6, 8]]},
        {"input": [[3]], "output": [[3, 3]]},
    ],
}
PUZZLES = {"training": {"mirror": MIRROR, "fill": FILL}, "evaluation": {"double": DOUBLE}}


def write_repository(root: pathlib.Path, puzzles: dict = PUZZLES) -> pathlib.Path:
    """Layout of the public repositories: a folder per subset, a file per puzzle."""
    for subset, of_one in puzzles.items():
        (root / subset).mkdir(parents=True)
        for name, puzzle in of_one.items():
            (root / subset / f"{name}.json").write_text(json.dumps(puzzle), "utf-8")
    return root


def write_combined(
    root: pathlib.Path, puzzles: dict = PUZZLES, *, secret: tuple[str, ...] = ()
) -> pathlib.Path:
    """Kaggle's layout: challenges without test outputs; solutions except of ``secret`` subsets."""
    root.mkdir(parents=True)
    for subset, of_one in puzzles.items():
        challenges = {
            name: {
                "train": puzzle["train"],
                "test": [{"input": pair["input"]} for pair in puzzle["test"]],
            }
            for name, puzzle in of_one.items()
        }
        solutions = {n: [pair["output"] for pair in p["test"]] for n, p in of_one.items()}
        stem = f"arc-agi_{subset}"
        (root / f"{stem}_challenges.json").write_text(json.dumps(challenges), "utf-8")
        if subset not in secret:
            (root / f"{stem}_solutions.json").write_text(json.dumps(solutions), "utf-8")
    return root


def small_subsets(root: pathlib.Path) -> list[Subset]:
    """Both subsets, read from ``root``."""
    return [read_subset(root, name) for name in PUZZLES]
