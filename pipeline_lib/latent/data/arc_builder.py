"""Data folders of ARC: every puzzle with its versions, demonstrations to train on, tests to ask.

Demonstrations of all puzzles, the test set's included, are trained on, because a puzzle is known to
the model only by its identifier: the setting is transductive, and each report says so. Test pairs of
the test set are asked; those of other subsets are trained on. Training examples are translated, but
for one a puzzle. Pairs that another puzzle repeats from the test set are left out of training.
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
from pipeline_lib.latent.data.arc_source import Subset
from pipeline_lib.latent.data.augmentation import Augmentation, draw_augmentation
from pipeline_lib.latent.data.built_folder import Counts, OnProgress, build_folder
from pipeline_lib.latent.data.set_writer import (
    IdentifierWriter,
    SetWriter,
    write_test_puzzles,
    writing,
    writing_identifiers,
)
from pipeline_lib.latent.data.vocabulary import PAD, VOCAB_SIZE, Colours, Tokens, colours_of, encode
from pipeline_lib.problems.arc_grids import Challenge, OpenPair, Pair
from pipeline_lib.seeding import child_generator
from pipeline_lib.storage.files import digest_json
from pipeline_lib.storage.manifests import Manifest

_TRIES_PER_VERSION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ArcOptions:
    """What is made of the puzzles."""

    test_set: str
    """Name of the subset whose test inputs are asked."""
    num_aug: int = 1000
    """Versions of a puzzle beside itself; one with few colours may have fewer."""
    seed: int = 42
    max_side: int = MAX_SIDE
    """Side of the canvas; puzzles with a larger grid are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Example:
    """A pair of grids; the output is None where it is secret."""

    input_HW: Colours
    output_HW: Colours | None

    def shown_in(self, version: Augmentation) -> "_Example":
        output_HW = None if self.output_HW is None else version.apply(self.output_HW)
        return _Example(input_HW=version.apply(self.input_HW), output_HW=output_HW)

    @property
    def content(self) -> bytes:
        """Equal for equal pairs only."""
        grids = (self.input_HW, self.output_HW)
        return b"".join(
            bytes(grid.shape) + grid.tobytes() if grid is not None else bytes(2) for grid in grids
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Puzzle:
    """A puzzle, or one version of it, by what becomes of its pairs."""

    id: str
    learnt: tuple[_Example, ...]
    asked: tuple[_Example, ...]

    def shown_in(self, version: Augmentation) -> "_Puzzle":
        return _Puzzle(
            id=version.name(self.id),
            learnt=tuple(example.shown_in(version) for example in self.learnt),
            asked=tuple(example.shown_in(version) for example in self.asked),
        )

    @property
    def digest(self) -> bytes:
        """Equal for versions with the same pairs, in whatever order."""
        contents = sorted(example.content for example in (*self.learnt, *self.asked))
        return hashlib.sha256(b"|".join(contents)).digest()


def build_arc(
    subsets: Sequence[Subset],
    options: ArcOptions,
    output: pathlib.Path,
    *,
    on_progress: OnProgress = lambda _done, _total: None,
) -> Manifest:
    """Build the data folder ``output``; its manifest counts what is in it.

    Memory holds the puzzles, never their versions, but for three integers of each.

    Raises:
        BadInputError: a puzzle stands in two subsets (as when ARC-2's training set is mixed with
            ARC-1's evaluation set), there is no test set, a training pair lacks its output, or
            ``output`` holds something else.
    """
    _refuse_repeats(subsets, options.test_set)

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


def _refuse_repeats(subsets: Sequence[Subset], test_set: str) -> None:
    names = [subset.name for subset in subsets]
    if test_set not in names:
        raise BadInputError(
            f"the test set {test_set!r} is none of the subsets {', '.join(names)}; "
            "add it to --subsets or choose another --test-set-name"
        )
    homes: dict[str, str] = {}
    for subset in sorted(subsets, key=lambda subset: subset.name != test_set):
        ids = [puzzle.id for puzzle in subset.puzzles]
        repeated = [puzzle_id for puzzle_id in ids if puzzle_id in homes]
        if repeated:
            home = homes[repeated[0]]
            leak = " (training on them would give the test away)" if home == test_set else ""
            raise BadInputError(
                f"{len(repeated)} puzzles of subset {subset.name!r} stand in {home!r} as well, "
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
    repeats -= sum(len(puzzle.learnt) + len(puzzle.asked) for puzzle in puzzles)
    sizes = {"vocab_size": VOCAB_SIZE, "seq_len": options.max_side**2}
    with (
        writing_identifiers(folder) as identifiers,
        writing(folder, "train", **sizes) as train,
        writing(folder, "test", **sizes) as test,
    ):
        for done, puzzle in enumerate(puzzles):
            on_progress(done, len(puzzles))
            _write_group(puzzle, options, identifiers, train=train, test=test)
        for writer in (train, test):
            writer.finish(num_puzzle_identifiers=identifiers.num_identifiers)
    write_test_puzzles(
        folder, {one.id: one.model_dump(exclude={"id"}, exclude_none=True) for one in tests}
    )
    counts = {name: count for subset in subsets for name, count in subset.counts.items()}
    return counts | {
        "puzzles_left_out_as_too_large": sum(len(subset.puzzles) for subset in subsets)
        - sum(len(subset.puzzles) for subset in kept),
        "repeats_of_test_pairs_left_out": repeats,
        "test_inputs_asked": sum(len(puzzle.asked) for puzzle in puzzles),
        "train_examples": train.num_examples,
        "test_examples": test.num_examples,
        "identifiers": identifiers.num_identifiers - 1,
    }


def _fits(puzzle: Challenge, max_side: int) -> bool:
    pairs: tuple[Pair | OpenPair, ...] = (*puzzle.train, *puzzle.test)
    grids = [grid for pair in pairs for grid in (pair.input, pair.output) if grid is not None]
    return all(len(grid) <= max_side and len(grid[0]) <= max_side for grid in grids)


def _puzzles(subsets: Sequence[Subset], test_set: str) -> Iterator[_Puzzle]:
    asked = {
        example.content: puzzle.id
        for subset in subsets
        if subset.name == test_set
        for puzzle in subset.puzzles
        for example in map(_example, puzzle.test)
    }
    for subset in subsets:
        for puzzle in subset.puzzles:
            is_test = subset.name == test_set
            learnt = [_example(pair) for pair in puzzle.train]
            if not is_test:
                learnt += [_solved(puzzle, pair, subset.name) for pair in puzzle.test]
            yield _Puzzle(
                id=puzzle.id,
                learnt=tuple(one for one in learnt if one.content not in asked),
                asked=tuple(map(_example, puzzle.test)) if is_test else (),
            )


def _example(pair: Pair | OpenPair) -> _Example:
    output_HW = None if pair.output is None else colours_of(pair.output)
    return _Example(input_HW=colours_of(pair.input), output_HW=output_HW)


def _solved(puzzle: Challenge, pair: OpenPair, subset: str) -> _Example:
    if pair.output is None:
        raise BadInputError(
            f"puzzle {puzzle.id} of subset {subset!r} has a test input without output, which cannot "
            "be trained on; put the solutions file beside the challenges, or make it the test set"
        )
    return _example(pair)


def _write_group(
    puzzle: _Puzzle,
    options: ArcOptions,
    identifiers: IdentifierWriter,
    *,
    train: SetWriter,
    test: SetWriter,
) -> None:
    rng = child_generator(options.seed, "latent", "arc", puzzle.id)
    for version in _versions(puzzle, options.num_aug, rng):
        number = identifiers.add(version.id)
        side = options.max_side
        if version.learnt:
            _add(train, _translated(version.learnt, side, rng), identifier=number)
        if version.asked:
            _add(test, [_encoded(one, side) for one in version.asked], identifier=number)
    train.end_group()
    test.end_group()


def _versions(puzzle: _Puzzle, num_aug: int, rng: np.random.Generator) -> Iterator[_Puzzle]:
    """The puzzle itself, then up to ``num_aug`` versions whose pairs differ from all before."""
    yield puzzle
    seen = {puzzle.digest}
    for _ in range(_TRIES_PER_VERSION * num_aug):
        if len(seen) > num_aug:
            return
        version = puzzle.shown_in(draw_augmentation(rng))
        if version.digest not in seen:
            seen.add(version.digest)
            yield version


_EncodedPair = tuple[Tokens, Tokens]


def _translated(
    examples: Sequence[_Example], side: int, rng: np.random.Generator
) -> list[_EncodedPair]:
    """Each example somewhere on the canvas, input and output at the same place; one in the corner."""
    fixed = int(rng.integers(len(examples)))
    encoded = []
    for number, example in enumerate(examples):
        grids = [grid for grid in (example.input_HW, example.output_HW) if grid is not None]
        room = [side - max(grid.shape[axis] for grid in grids) for axis in (0, 1)]
        top, left = (0, 0) if number == fixed else (int(rng.integers(free + 1)) for free in room)
        encoded.append(_encoded(example, side, top=top, left=left))
    return encoded


def _encoded(example: _Example, side: int, *, top: int = 0, left: int = 0) -> _EncodedPair:
    """Tokens of input and output; a secret output is nothing but padding, which is ignored."""
    if example.output_HW is None:
        label_L = np.full(side * side, PAD, dtype=np.uint8)
    else:
        label_L = encode(example.output_HW, side=side, top=top, left=left)
    return encode(example.input_HW, side=side, top=top, left=left), label_L


def _add(writer: SetWriter, pairs: Sequence[_EncodedPair], *, identifier: int) -> None:
    inputs_EL, labels_EL = map(np.stack, zip(*pairs, strict=True))
    writer.add_puzzle(inputs_EL, labels_EL, identifier=identifier)
