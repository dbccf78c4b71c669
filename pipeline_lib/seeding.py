"""Randomness: child seeds derived from names, never from time, process or a global generator.

A child seed depends on the root seed and on its names alone, so results do not depend on the number of
workers or on interruptions.
"""

import hashlib
import random

import numpy as np

SEED_BITS = 63


def child_seed(root_seed: int, *names: str | int) -> int:
    """Derive a seed in [0, 2**63) by sha256 of the root seed and a path of names.

    Example: ``child_seed(7, "sample", problem_id, path_index)``.
    """
    # repr keeps 1 and "1" apart, and no name can imitate a boundary between two names.
    material = repr((root_seed, *names)).encode()
    return int.from_bytes(hashlib.sha256(material).digest()[:8], "big") >> (64 - SEED_BITS)


def round_seed(root_seed: int, round_number: int) -> int:
    """The root seed of round 1, 2, ... of training.

    Round 1 has ``root_seed`` itself, so its result does not depend on the number of rounds.
    """
    return root_seed if round_number == 1 else child_seed(root_seed, "round", round_number)


def consecutive_seeds(count: int, root_seed: int, *names: str | int) -> range:
    """``count`` consecutive seeds, the first derived from ``names``.

    Engines give consecutive seeds to the N paths of one request. Path i can thus be drawn again alone,
    and the first N of N + 1 paths are the same N paths.
    """
    # Halved, so that the last seed is below 2**63, the limit of engines.
    first = child_seed(root_seed, *names) // 2
    return range(first, first + count)


def child_random(root_seed: int, *names: str | int) -> random.Random:
    """A local generator of the standard library, seeded from ``names``."""
    return random.Random(child_seed(root_seed, *names))  # noqa: S311 - simulation, not secrets


def child_generator(root_seed: int, *names: str | int) -> np.random.Generator:
    """A local numpy generator, seeded from ``names``."""
    return np.random.default_rng(child_seed(root_seed, *names))
