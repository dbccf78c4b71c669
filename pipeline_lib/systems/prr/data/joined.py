"""Several data folders as one: the identifiers of each follow those of the folders before, so they stay distinct."""

import itertools
import pathlib
from collections.abc import Sequence

import numpy as np

from pipeline_lib.errors import BadInputError
from pipeline_lib.store.files import read_json
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.prr.data.dataset_files import (
    TEST_PUZZLES_NAME,
    PuzzleSet,
    data_digest,
    read_identifiers,
    read_set,
)
from pipeline_lib.systems.prr.data.set_writer import (
    Counts,
    SetWriter,
    build_folder,
    open_split,
    write_identifiers,
    write_test_puzzles,
)
from pipeline_lib.systems.prr.data.synthetic import ANSWERS_NAME, read_answers


def join_folders(folders: Sequence[pathlib.Path], output: pathlib.Path) -> Manifest:
    """Write the examples of ``folders`` to ``output`` in their order, split by split, or reuse it.

    All correct answers of the test split are known if each folder knows its own.

    Raises:
        BadInputError: a folder is invalid, its examples have another size or vocabulary, a puzzle is in two folders, or
            ``output`` holds other files.
    """

    def write(fresh: pathlib.Path) -> Counts:
        sets = {split: [read_set(one, split) for one in folders] for split in ("train", "test")}
        write_identifiers(fresh, _distinct_names(folders, sets["train"]))
        for split, parts in sets.items():
            _join(folders, parts, fresh, split)
        tests = [one / TEST_PUZZLES_NAME for one in folders if (one / TEST_PUZZLES_NAME).is_file()]
        if tests:
            puzzles = [item for one in tests for item in read_json(one).items()]
            write_test_puzzles(fresh, dict(puzzles))
        pairs = zip(folders, sets["test"], strict=True)
        answers = [known for one, data in pairs if (known := read_answers(one, data)) is not None]
        if len(answers) == len(folders):
            most = max(one.shape[1] for one in answers)
            # Repeated answers count once.
            padded = [
                np.pad(one, ((0, 0), (0, most - one.shape[1]), (0, 0)), "edge") for one in answers
            ]
            np.save(fresh / "test" / ANSWERS_NAME, np.concatenate(padded))
        return {split: sum(len(one.inputs_NL) for one in parts) for split, parts in sets.items()}

    digests = {f"folder {place}": data_digest(one) for place, one in enumerate(folders)}
    return build_folder(output, write, module=__name__, options={}, inputs=digests)


def _distinct_names(folders: Sequence[pathlib.Path], sets: Sequence[PuzzleSet]) -> list[str]:
    """Names of all identifiers besides the blank one; a puzzle of two folders could be trained on and tested."""
    names: list[str] = []
    homes: dict[str, pathlib.Path] = {}
    for folder, data in zip(folders, sets, strict=True):
        count = data.metadata.num_puzzle_identifiers - 1
        own = read_identifiers(folder)[1:] if count else []
        if len(own) != count:
            raise BadInputError(f"{folder}: {len(own)} names of {count} puzzles; build it again")
        puzzles = {name.split("|||")[0] for name in own}
        if twice := sorted(puzzles & homes.keys()):
            raise BadInputError(
                f"{folder}: {len(twice)} puzzles are also in {homes[twice[0]]}, such as {twice[0]}; "
                "build one of the folders without them"
            )
        homes |= dict.fromkeys(puzzles, folder)
        names += own
    return names


def _join(
    folders: Sequence[pathlib.Path], parts: Sequence[PuzzleSet], fresh: pathlib.Path, split: str
) -> None:
    sizes = [
        {"vocab_size": one.metadata.vocab_size, "seq_len": one.metadata.seq_len} for one in parts
    ]
    for folder, size in zip(folders, sizes, strict=True):
        if size != sizes[0]:
            raise BadInputError(f"{folder}: {size}, but {folders[0]}: {sizes[0]}; name one of them")
    before = 0
    with open_split(fresh, split, **sizes[0]) as writer:
        for data in parts:
            _add_groups(writer, data, before=before)
            before += data.metadata.num_puzzle_identifiers - 1
        writer.finish(num_puzzle_identifiers=1 + before)


def _add_groups(writer: SetWriter, data: PuzzleSet, *, before: int) -> None:
    """Append all groups, with ``before`` identifiers of other folders before theirs; the blank one stays."""
    for puzzles in itertools.pairwise(data.group_indices_G1.tolist()):
        for puzzle in range(*puzzles):
            start, stop = data.puzzle_indices_P1[puzzle : puzzle + 2].tolist()
            pairs = zip(data.inputs_NL[start:stop], data.labels_NL[start:stop], strict=True)
            own = int(data.puzzle_identifiers_P[puzzle])
            writer.add_puzzle(list(pairs), identifier=own and own + before)
        writer.end_group()
