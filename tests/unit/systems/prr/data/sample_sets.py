"""A hand-made split in the format of TRM and HRM, and the files of a folder."""

import pathlib

import numpy as np

from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet


def small_set() -> PuzzleSet:
    """Two groups: puzzles 1 (two examples) and 2 (one), then puzzle 3 (one); four tokens each."""
    tokens = np.arange(16, dtype=np.uint8).reshape(4, 4) % 12
    return PuzzleSet.of(
        inputs_NL=tokens,
        labels_NL=tokens[::-1].copy(),
        puzzle_identifiers=[1, 2, 3],
        puzzle_indices=[0, 2, 3, 4],
        group_indices=[0, 2, 3],
        vocab_size=12,
    )


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    """Content of every file below ``folder`` by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
