"""Builds ARC data folders: augmented puzzles, split into training pairs and test inputs.

The training split holds the demonstrations of all puzzles, the test set included, because
a model identifies a puzzle only by its learned vector: the setting is transductive, and each report
states it. The test pairs of the test set form the test split; test pairs of other subsets are training
data. Training pairs are translated at random, except one per puzzle. A training pair that also
occurs among the test pairs is dropped.

Legend: E examples of a puzzle, L tokens, H rows and W columns of a grid.

Source: SamsungSAILMontreal/TinyRecursiveModels, ``dataset/build_arc_dataset.py``.
"""

import hashlib
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from pipeline_lib.errors import BadInputError
from pipeline_lib.grids import MAX_SIDE
from pipeline_lib.problems.arc_grids import Challenge, OpenPair, Pair
from pipeline_lib.seeding import child_generator
from pipeline_lib.store.files import digest_json
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.prr.data.arc_source import Subset
from pipeline_lib.systems.prr.data.grids import (
    PAD,
    VOCAB_SIZE,
    Augmentation,
    Colours,
    draw_augmentation,
    encode,
    grid_to_array,
)
from pipeline_lib.systems.prr.data.set_writer import (
    Counts,
    Example,
    OnProgress,
    SetWriter,
    build_folder,
    open_split,
    write_identifiers,
    write_test_puzzles,
)

_TRIES_PER_VERSION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ArcOptions:
    """Options of the build; they determine its content."""

    test_set: str
    """Name of the subset whose test pairs form the test split."""
    num_aug: int = 1000
    """Augmented versions per puzzle; puzzles with few colours may have fewer."""
    seed: int = 42
    max_side: int = MAX_SIDE
    """Side of the canvas; puzzles with a larger grid are skipped."""


_Grids = tuple[Colours, Colours | None]
"""Input and output of a pair; a secret output is None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Puzzle:
    """A puzzle, or one version of it, with its pairs by split."""

    id: str
    train_pairs: tuple[_Grids, ...]
    test_pairs: tuple[_Grids, ...]

    def augment(self, version: Augmentation) -> "_Puzzle":
        def shown(pairs: tuple[_Grids, ...]) -> tuple[_Grids, ...]:
            return tuple(
                (version.apply(given), None if output is None else version.apply(output))
                for given, output in pairs
            )

        return _Puzzle(
            id=version.name(self.id),
            train_pairs=shown(self.train_pairs),
            test_pairs=shown(self.test_pairs),
        )

    @property
    def digest(self) -> bytes:
        """Equal for versions with the same pairs, in any order."""
        contents = sorted(map(_content, (*self.train_pairs, *self.test_pairs)))
        return hashlib.sha256(b"|".join(contents)).digest()


def _content(pair: _Grids) -> bytes:
    """Shape and cells of both grids: equal for equal pairs only."""
    return b"".join(bytes(2) if one is None else bytes(one.shape) + one.tobytes() for one in pair)


def build_arc(
    subsets: Sequence[Subset],
    options: ArcOptions,
    output: pathlib.Path,
    *,
    on_progress: OnProgress = lambda _done, _total: None,
) -> Manifest:
    """Build the data folder ``output``; its manifest holds the counts.

    Versions are written one by one: memory holds the original puzzles, and a name and three
    integers per version.

    Raises:
        BadInputError: a puzzle is in two subsets (such as ARC-2's training set and ARC-1's
            evaluation set), there is no test set, a training pair lacks its output, or ``output``
            holds other files.
    """
    _check_disjoint(subsets, options.test_set)

    def write(folder: pathlib.Path) -> Counts:
        return _write(subsets, options, folder, on_progress)

    return build_folder(
        output,
        write,
        module=__name__,
        options=asdict(options) | {"subsets": [subset.name for subset in subsets]},
        inputs={
            subset.name: digest_json([puzzle.model_dump() for puzzle in subset.puzzles])
            for subset in subsets
        },
    )


def _check_disjoint(subsets: Sequence[Subset], test_set: str) -> None:
    names = [subset.name for subset in subsets]
    if test_set not in names:
        raise BadInputError(
            f"the test set {test_set!r} is not among the subsets {', '.join(names)}; "
            "add it to --subsets or choose another --test-set-name"
        )
    homes: dict[str, str] = {}
    for subset in sorted(subsets, key=lambda subset: subset.name != test_set):
        ids = [puzzle.id for puzzle in subset.puzzles]
        repeated = [puzzle_id for puzzle_id in ids if puzzle_id in homes]
        if repeated:
            home = homes[repeated[0]]
            leak = " (training on them would leak the test set)" if home == test_set else ""
            raise BadInputError(
                f"{len(repeated)} puzzles of subset {subset.name!r} are also in {home!r}, "
                f"such as {repeated[0]}{leak}; leave one of the subsets out"
            )
        homes.update(dict.fromkeys(ids, subset.name))


def _write(
    subsets: Sequence[Subset], options: ArcOptions, folder: pathlib.Path, on_progress: OnProgress
) -> Counts:
    kept = [
        Subset(name=one.name, puzzles=tuple(p for p in one.puzzles if _fits(p, options.max_side)))
        for one in subsets
    ]
    (tests,) = (subset.puzzles for subset in kept if subset.name == options.test_set)
    puzzles = list(_puzzles(kept, options.test_set))
    repeats = sum(len(one.train) + len(one.test) for subset in kept for one in subset.puzzles)
    repeats -= sum(len(puzzle.train_pairs) + len(puzzle.test_pairs) for puzzle in puzzles)
    names: list[str] = []
    sizes = {"vocab_size": VOCAB_SIZE, "seq_len": options.max_side**2}
    with (
        open_split(folder, "train", **sizes) as train,
        open_split(folder, "test", **sizes) as test,
    ):
        for done, puzzle in enumerate(puzzles):
            on_progress(done, len(puzzles))
            _write_group(puzzle, options, names, train=train, test=test)
        for writer in (train, test):
            writer.finish(num_puzzle_identifiers=1 + len(names))
    write_identifiers(folder, names)
    write_test_puzzles(
        folder, {one.id: one.model_dump(exclude={"id"}, exclude_none=True) for one in tests}
    )
    counts = {name: count for subset in subsets for name, count in subset.counts.items()}
    return counts | {
        "puzzles_left_out_as_too_large": sum(len(subset.puzzles) for subset in subsets)
        - sum(len(subset.puzzles) for subset in kept),
        "repeats_of_test_pairs_left_out": repeats,
        "test_inputs_asked": sum(len(puzzle.test_pairs) for puzzle in puzzles),
        "train_examples": train.num_examples,
        "test_examples": test.num_examples,
        "identifiers": len(names),
    }


def _fits(puzzle: Challenge, max_side: int) -> bool:
    pairs: tuple[Pair | OpenPair, ...] = (*puzzle.train, *puzzle.test)
    grids = [grid for pair in pairs for grid in (pair.input, pair.output) if grid is not None]
    return all(len(grid) <= max_side and len(grid[0]) <= max_side for grid in grids)


def _puzzles(subsets: Sequence[Subset], test_set: str) -> Iterator[_Puzzle]:
    test_contents = {
        _content(_grids(pair))
        for subset in subsets
        if subset.name == test_set
        for puzzle in subset.puzzles
        for pair in puzzle.test
    }
    for subset in subsets:
        for puzzle in subset.puzzles:
            is_test = subset.name == test_set
            train_pairs = list(map(_grids, puzzle.train))
            if not is_test:
                train_pairs += [_require_output(puzzle, pair, subset.name) for pair in puzzle.test]
            yield _Puzzle(
                id=puzzle.id,
                train_pairs=tuple(one for one in train_pairs if _content(one) not in test_contents),
                test_pairs=tuple(map(_grids, puzzle.test)) if is_test else (),
            )


def _grids(pair: Pair | OpenPair) -> _Grids:
    output_HW = None if pair.output is None else grid_to_array(pair.output)
    return grid_to_array(pair.input), output_HW


def _require_output(puzzle: Challenge, pair: OpenPair, subset: str) -> _Grids:
    if pair.output is None:
        raise BadInputError(
            f"puzzle {puzzle.id} of subset {subset!r} has a test input without output, which cannot "
            "be trained on; put the solutions file beside the challenges, or make it the test set"
        )
    return _grids(pair)


def _write_group(
    puzzle: _Puzzle,
    options: ArcOptions,
    names: list[str],
    *,
    train: SetWriter,
    test: SetWriter,
) -> None:
    rng = child_generator(options.seed, "latent", "arc", puzzle.id)
    for version in _draw_versions(puzzle, options.num_aug, rng):
        names.append(version.id)
        side, number = options.max_side, len(names)
        if version.train_pairs:
            train.add_puzzle(_translate(version.train_pairs, side, rng), identifier=number)
        if version.test_pairs:
            test.add_puzzle([_encode(one, side) for one in version.test_pairs], identifier=number)
    train.end_group()
    test.end_group()


def _draw_versions(puzzle: _Puzzle, num_aug: int, rng: np.random.Generator) -> Iterator[_Puzzle]:
    """The puzzle itself, then up to ``num_aug`` distinct augmented versions."""
    yield puzzle
    seen = {puzzle.digest}
    for _ in range(_TRIES_PER_VERSION * num_aug):
        if len(seen) > num_aug:
            return
        version = puzzle.augment(draw_augmentation(rng))
        if version.digest not in seen:
            seen.add(version.digest)
            yield version


def _translate(pairs: Sequence[_Grids], side: int, rng: np.random.Generator) -> list[Example]:
    """Place each pair at a random offset, the same for input and output; one stays at (0, 0)."""
    fixed = int(rng.integers(len(pairs)))
    encoded = []
    for number, pair in enumerate(pairs):
        grids = [grid for grid in pair if grid is not None]
        room = [side - max(grid.shape[axis] for grid in grids) for axis in (0, 1)]
        top, left = (0, 0) if number == fixed else (int(rng.integers(free + 1)) for free in room)
        encoded.append(_encode(pair, side, top=top, left=left))
    return encoded


def _encode(pair: _Grids, side: int, *, top: int = 0, left: int = 0) -> Example:
    """Tokens of input and output; a secret output is all padding, which no loss counts."""
    given, output = pair
    if output is None:
        label_L = np.full(side * side, PAD, dtype=np.uint8)
    else:
        label_L = encode(output, side=side, top=top, left=left)
    return encode(given, side=side, top=top, left=left), label_L
