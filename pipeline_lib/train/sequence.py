"""A training of several phases, each from the result of the one before; the last result is published."""

import itertools
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.problems.trained import RECORD_NAME, write_record
from pipeline_lib.store import checkpoints, manifests
from pipeline_lib.store.files import read_json_lines, write_json, write_json_lines
from pipeline_lib.store.folders import replaced
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.phases import Phase, TrainContext, run_phase
from pipeline_lib.train.token_budget import Tokens
from pipeline_lib.train.weights import adapters, policies

# The manifest and the log of one phase; the files of all phases follow.
_NOT_WEIGHTS = shutil.ignore_patterns(
    manifests.MANIFEST_NAME, policies.LOG_NAME, adapters.FOLDER, RECORD_NAME
)


def finished_training(output: pathlib.Path, *, key: str, replaces: bool) -> Manifest | None:
    """The manifest of a finished training of ``key`` in ``output``; None if there is none.

    Raises:
        BadInputError: ``output`` holds the model of another training, and it is not to be replaced.
    """
    finished = manifests.current(output, kind=policies.KIND, key=key)
    if finished is None and not replaces and (output / manifests.MANIFEST_NAME).is_file():
        raise BadInputError(
            f"{output}: holds the model of another training; remove it, or choose another --output"
        )
    return finished


def run_phases(
    phases: Sequence[Phase],
    source: str,
    output: pathlib.Path,
    *,
    context: TrainContext,
    records: Mapping[str, Any] | None = None,
) -> Manifest:
    """Run the phases in order, each from the result of the one before, then publish the last result.

    The adapter of the N-th phase is kept as ``adapters/N-NAME``: applied to ``source`` in this order they
    give the policy. ``records`` are JSON files of the published folder, by name.
    """
    folders: list[pathlib.Path] = []
    for phase in phases:
        folders.append(run_phase(phase, str(folders[-1]) if folders else source, context))
    kept = {
        f"{number}-{phase.name}": folder / adapters.FOLDER
        for number, (phase, folder) in enumerate(zip(phases, folders, strict=True), 1)
        if (folder / adapters.FOLDER).is_dir()
    }
    return present_devices().from_main(
        lambda: publish(
            folders[-1], output, context, trained=folders, start=source, records=records, kept=kept
        )
    )


def publish(  # noqa: PLR0913 - content of a folder
    weights: pathlib.Path | None,
    output: pathlib.Path,
    context: TrainContext,
    *,
    trained: Sequence[pathlib.Path],
    start: str,
    records: Mapping[str, Any] | None = None,
    kept: Mapping[str, pathlib.Path] = MappingProxyType({}),
) -> Manifest:
    """Replace ``output`` by a sealed folder, and remove the work folder.

    It holds the model of ``weights``, if there are any, with the logs of all ``trained`` phases, whose tokens are
    added up; JSON ``records`` and ``kept`` adapters by name. ``start`` is the policy before the first phase.
    """
    phases = [manifests.read_manifest(folder) for folder in trained]
    tokens = sum(map(policies.tokens_of, phases), Tokens())
    with replaced(output) as fresh:
        if weights is not None:
            shutil.copytree(weights, fresh, dirs_exist_ok=True, ignore=_NOT_WEIGHTS)
            logs = (read_json_lines(folder / policies.LOG_NAME) for folder in trained)
            write_json_lines(fresh / policies.LOG_NAME, itertools.chain.from_iterable(logs))
        for name, folder in kept.items():
            shutil.copytree(folder, fresh / adapters.PUBLISHED / name)
        for name, record in (records or {}).items():
            write_json(fresh / name, record)
        weight_counts = {name: n for phase in phases for name, n in phase.counts.items()}
        counts = weight_counts | policies.token_counts(tokens)
        manifest = manifests.seal(fresh, kind=policies.KIND, key=context.key, counts=counts)
        if weights is not None:
            write_record(fresh, context.problems, start=start)
    checkpoints.discard(context.work)
    return manifest
