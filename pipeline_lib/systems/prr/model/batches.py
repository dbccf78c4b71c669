"""Inputs and outputs of latent models, and the batches of a puzzle set: random for training, in file order for evaluation.

A training batch is a pure function of seed and step, so a resumed run needs no loader state. An
epoch visits each group as often as its puzzles have examples; each visit draws one version of the
puzzle and one of its examples. (TRM puts all examples of a drawn version into the same batch.)
Legend: N examples, P puzzles, G groups, B rows of a batch, K branches, L tokens, V tokens of the vocabulary.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pipeline_lib.errors import BadInputError
from pipeline_lib.seeding import child_generator
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet

IGNORED_LABEL = 0
"""Label of positions without loss and score; equal to the padding token."""

Carry = Mapping[str, Tensor]
"""State carried between training steps, as named tensors, saved in checkpoints.

The first axis of each is the rows of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of a model that follow from its data set."""

    vocab_size: int
    seq_len: int
    num_puzzle_ids: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Examples with their labels. Rows that are not real are padding, excluded from all sums."""

    inputs_BL: Tensor
    """int64 tokens."""
    labels_BL: Tensor
    """int64 tokens; `IGNORED_LABEL` at positions without a label."""
    puzzle_ids_B: Tensor
    """int64 rows of the puzzle embedding."""
    real_B: Tensor
    """bool; False for padding rows."""

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on ``device``."""
        return Batch(
            **{name: part.to(device, non_blocking=True) for name, part in self.parts().items()}
        )

    def parts(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchOutput:
    """K answers per row."""

    logits_BKLV: Tensor
    """float32, for stablemax (see `losses`), not for softmax."""
    scores_BK: Tensor
    """float32 logits of the probability that the branch is exactly right."""
    core_passes: float
    """Passes through the stack of blocks per row, over all K answers: the unit of compute for
    comparing models of equal width and depth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """Result of one training step; the trainer calls ``loss.backward()``."""

    loss: Tensor
    """Scalar, a mean over real rows."""
    parts: dict[str, Tensor]
    """Detached scalars to log."""
    carry: Carry | None
    """Input of the next step; None for a stateless model."""


Ints = npt.NDArray[np.int64]


class TrainingBatches:
    """The share of process ``rank`` of ``world`` in batches of ``batch_size`` rows.

    Raises:
        BadInputError: no example, or ``batch_size`` is not divisible by ``world``.
    """

    def __init__(
        self, data: PuzzleSet, *, batch_size: int, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        if batch_size % world:
            raise BadInputError(
                f"batch_size={batch_size} is not a multiple of the {world} devices; "
                "change prr.train.batch_size"
            )
        if not len(data.inputs_NL):
            raise BadInputError("the training set has no example; build it again")
        self._data = data
        self._batch_size = batch_size
        self._seed = seed
        self._mine = slice(rank, None, world)
        self._visits = _visits(data)
        self._order = functools.lru_cache(maxsize=2)(
            lambda turn: child_generator(seed, "latent", "order", turn).permutation(self._visits)
        )

    def at(self, step: int) -> Batch:
        """This process's rows of the batch of step 0, 1, ..."""
        turns_B, places_B = np.divmod(
            step * self._batch_size + np.arange(self._batch_size), len(self._visits)
        )
        groups_B = np.array(
            [self._order(int(turn))[place] for turn, place in zip(turns_B, places_B, strict=True)]
        )
        draws_2B = child_generator(self._seed, "latent", "draw", step).random((2, self._batch_size))
        puzzles_B = _pick(self._data.group_indices_G1, groups_B, draws_2B[0])
        examples_B = _pick(self._data.puzzle_indices_P1, puzzles_B, draws_2B[1])
        ids_B = self._data.puzzle_identifiers_P[puzzles_B]
        return _batch(self._data, examples_B[self._mine], ids_B[self._mine])


def _visits(data: PuzzleSet) -> Ints:
    """Group indices, each repeated by the mean number of examples per version, at least once."""
    starts_G1 = data.group_indices_G1.astype(np.int64)
    examples_G = np.diff(data.puzzle_indices_P1.astype(np.int64)[starts_G1])
    visits_G = np.maximum(1, np.rint(examples_G / np.diff(starts_G1)).astype(np.int64))
    return np.repeat(np.arange(len(visits_G)), visits_G)


def _pick(starts: npt.NDArray[np.int32], of_B: Ints, draws_B: npt.NDArray[np.float64]) -> Ints:
    """One index from each of the ranges ``of_B``, chosen by uniform draws in [0, 1)."""
    low_B = starts[of_B].astype(np.int64)
    high_B = starts[of_B + 1].astype(np.int64)
    picked: Ints = low_B + np.floor(draws_B * (high_B - low_B)).astype(np.int64)
    return picked


def labelled_sample(data: PuzzleSet, *, count: int, seed: int) -> Ints:
    """Places of at most ``count`` examples with labels, drawn by the seed, in file order."""
    labelled = np.flatnonzero((data.labels_NL != IGNORED_LABEL).any(1))
    drawn = child_generator(seed, "latent", "sample").permutation(labelled)[:count]
    return np.sort(drawn)


def _batch(data: PuzzleSet, examples_B: Ints, ids_B: npt.NDArray[np.int32]) -> Batch:
    return Batch(
        inputs_BL=torch.from_numpy(data.inputs_NL[examples_B].astype(np.int64)),
        labels_BL=torch.from_numpy(data.labels_NL[examples_B].astype(np.int64)),
        puzzle_ids_B=torch.from_numpy(ids_B.astype(np.int64)),
        real_B=torch.ones(len(examples_B), dtype=torch.bool),
    )


def evaluation_batches(
    data: PuzzleSet, *, batch_size: int, chosen_N: Ints | None = None
) -> Iterator[tuple[range, Batch]]:
    """All examples in file order, or the chosen, with their places; the last batch is filled up by padding rows."""
    ids_N = data.example_identifiers
    chosen_N = np.arange(len(data.inputs_NL)) if chosen_N is None else chosen_N
    for start in range(0, len(chosen_N), batch_size):
        places = range(start, min(start + batch_size, len(chosen_N)))
        rows_B = chosen_N[np.minimum(np.arange(start, start + batch_size), places[-1])]
        batch = _batch(data, rows_B, ids_N[rows_B])
        yield places, replace(batch, real_B=torch.arange(batch_size) < len(places))
