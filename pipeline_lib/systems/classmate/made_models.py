"""Models that Classmate makes itself: the base of the actor, and small peers where none are named."""

import pathlib
from collections.abc import Sequence

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.pretrained import load_chat_format
from pipeline_lib.params.classmate import ClassmateParams, MadePeerParams, PeerParams
from pipeline_lib.problems.worked import divide_worked
from pipeline_lib.records import Problem
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.seeding import child_seed
from pipeline_lib.store import manifests
from pipeline_lib.store.files import digest_json
from pipeline_lib.store.keys import stage_key
from pipeline_lib.train.bootstrap import make_base_policy
from pipeline_lib.train.phases import Progress
from pipeline_lib.train.tracking.trackers import Trackers
from pipeline_lib.train.weights import policies


def make_base(
    problems: Sequence[Problem],
    output: pathlib.Path,
    params: ClassmateParams,
    *,
    seed: int,
    progress: Progress,
    trackers: Trackers | None = None,
) -> None:
    """Make the actor's base in ``output``, unless it exists; an interrupted training is resumed.

    Args:
        problems: of the bootstrap split.
        output: folder of the model.
        params: section ``bootstrap`` is read.
        seed: the root seed.
        progress: called after each step.
        trackers: experiment trackers.

    Raises:
        BadInputError: the named model cannot be loaded, or no problem has a worked solution.
    """
    made = params.bootstrap
    worked = divide_worked(problems, validation_fraction=made.validation_fraction, seed=seed)
    key = stage_key(
        __name__,
        params={"bootstrap": made.model_dump(mode="json"), "seed": seed},
        inputs={
            "problems": _digest(worked.train),
            "model": model_identity(made.model) if made.model else "",
        },
    )
    if manifests.current(output, kind=policies.KIND, key=key) is not None:
        return
    chat_format = load_chat_format(made.model) if made.model and made.format_steps else None
    rows = solution_rows(worked.train, chat_format)
    make_base_policy(
        rows,
        output,
        params=made,
        seed=seed,
        key=key,
        problems=worked.train,
        progress=progress,
        trackers=trackers,
    )


def make_peer(  # noqa: PLR0913 - what a training depends on
    problems: Sequence[Problem],
    output: pathlib.Path,
    recipe: MadePeerParams,
    params: ClassmateParams,
    *,
    seed: int,
    progress: Progress,
    trackers: Trackers | None = None,
) -> None:
    """Make a small peer in ``output``, unless it exists; an interrupted training is resumed.

    Args:
        problems: with worked solutions.
        output: folder of the model.
        recipe: sizes, tokenizer and steps.
        params: batches and rates are those of section ``bootstrap``.
        seed: the root seed.
        progress: called after each step.
        trackers: experiment trackers.

    Raises:
        BadInputError: no problem has a worked solution.
    """
    made = params.bootstrap.model_copy(
        update={
            "model": None,
            "format_steps": 0,
            "hidden_size": recipe.hidden_size,
            "num_layers": recipe.num_layers,
            "num_heads": recipe.num_heads,
            "steps": recipe.steps,
        }
    )
    own_seed = child_seed(seed, "classmate", "peer", recipe.name)
    key = stage_key(
        __name__,
        params={
            "bootstrap": made.model_dump(mode="json"),
            "tokenizer": recipe.tokenizer,
            "seed": own_seed,
        },
        inputs={"problems": _digest(problems)},
    )
    if manifests.current(output, kind=policies.KIND, key=key) is not None:
        return
    make_base_policy(
        solution_rows(problems, None),
        output,
        params=made,
        seed=own_seed,
        key=key,
        problems=problems,
        pieces=recipe.tokenizer,
        progress=progress,
        trackers=trackers,
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


def _digest(problems: Sequence[Problem]) -> str:
    return digest_json([problem.row() for problem in problems])
