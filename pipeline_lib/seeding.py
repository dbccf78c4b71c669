"""Randomness: child seeds from names, never from time, process or a global generator.

A child seed depends only on the root seed and on what it is for, so a result is the same whatever
the number of workers and wherever a broken run was continued.
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
    """The seed from which round 1, 2, ... of training derives all of its own.

    Round 1 has the root seed itself, so what one round computes does not depend on later ones.
    """
    return root_seed if round_number == 1 else child_seed(root_seed, "round", round_number)


def consecutive_seeds(count: int, root_seed: int, *names: str | int) -> range:
    """``count`` seeds that follow each other, the first from ``names``.

    That is what an engine gives to the N paths of one request: path i can then be drawn again
    alone, and N + 1 paths begin with the N paths.
    """
    # Halved, so that the last one is still below 2**63, which is where engines end.
    first = child_seed(root_seed, *names) // 2
    return range(first, first + count)


def child_random(root_seed: int, *names: str | int) -> random.Random:
    """A local standard-library generator for ``names``."""
    return random.Random(child_seed(root_seed, *names))  # noqa: S311 - simulation, not secrets


def child_generator(root_seed: int, *names: str | int) -> np.random.Generator:
    """A local numpy generator for ``names``."""
    return np.random.default_rng(child_seed(root_seed, *names))
