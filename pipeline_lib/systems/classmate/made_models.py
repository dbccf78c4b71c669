"""Models that Classmate makes itself: the base of the actor, and small peers where none are named."""

import pathlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.pretrained import load_chat_format
from pipeline_lib.params.classmate import ClassmateParams, MadePeerParams, PeerParams
from pipeline_lib.params.paths import PEER_SOLUTION, BootstrapParams
from pipeline_lib.problems.worked import divide_worked
from pipeline_lib.records import Problem
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.seeding import child_seed
from pipeline_lib.store import manifests
from pipeline_lib.store.files import digest_json
from pipeline_lib.store.keys import stage_key
from pipeline_lib.train.bootstrap import Pieces, make_base_policy
from pipeline_lib.train.weights import policies


def make_base(
    problems: Sequence[Problem],
    output: pathlib.Path,
    params: ClassmateParams,
    *,
    seed: int,
    **shown: Any,
) -> None:
    """Make the actor's base in ``output`` from problems of the bootstrap split, as :func:`make_peer` does a peer."""
    made = params.bootstrap
    worked = divide_worked(problems, validation_fraction=made.validation_fraction, seed=seed)
    _make(worked.train, output, made, seed=seed, **shown)


def make_peer(
    problems: Sequence[Problem],
    output: pathlib.Path,
    recipe: MadePeerParams,
    params: ClassmateParams,
    *,
    seed: int,
    **shown: Any,
) -> None:
    """Make a small peer in ``output``, unless it exists; an interrupted training is resumed.

    Batches and rates are the same as in section ``bootstrap``; ``shown`` are ``progress`` and ``trackers``.
    BadInputError: no problem has a worked solution.
    """
    sizes = recipe.model_dump(include={"hidden_size", "num_layers", "num_heads", "steps"})
    made = params.bootstrap.model_copy(update={"model": None, "format_steps": 0, **sizes})
    own_seed = child_seed(seed, "classmate", "peer", recipe.name)
    problems = [
        replace(one, solution=one.columns.get(PEER_SOLUTION, one.solution)) for one in problems
    ]
    _make(problems, output, made, seed=own_seed, pieces=recipe.tokenizer, **shown)


def _make(
    problems: Sequence[Problem],
    output: pathlib.Path,
    made: BootstrapParams,
    *,
    seed: int,
    pieces: Pieces = "numbers",
    **shown: Any,
) -> None:
    key = stage_key(
        __name__,
        params={"bootstrap": made.model_dump(mode="json"), "tokenizer": pieces, "seed": seed},
        inputs={
            "problems": digest_json([problem.row() for problem in problems]),
            "model": model_identity(made.model) if made.model else "",
        },
    )
    if manifests.current(output, kind=policies.KIND, key=key) is not None:
        return
    chat_format = load_chat_format(made.model) if made.model and made.format_steps else None
    make_base_policy(
        solution_rows(problems, chat_format),
        output,
        params=made,
        seed=seed,
        key=key,
        problems=problems,
        pieces=pieces,
        **shown,
    )


def training_peers(params: ClassmateParams, folder: pathlib.Path) -> tuple[PeerParams, ...]:
    """The peers of the training: those that are named, else those that were made in ``folder``."""
    named = params.classmate_model_name_or_path_list
    return named or _made(params, folder, held_out=False)


def held_out_peers(params: ClassmateParams, folder: pathlib.Path) -> tuple[PeerParams, ...]:
    """The peers of the evaluation alone, as in :func:`training_peers`."""
    return (*params.held_out, *_made(params, folder, held_out=True))


def _made(
    params: ClassmateParams, folder: pathlib.Path, *, held_out: bool
) -> tuple[PeerParams, ...]:
    return tuple(
        PeerParams(name=recipe.name, model=str(folder / recipe.name))
        for recipe in params.used_recipes
        if recipe.held_out == held_out
    )
