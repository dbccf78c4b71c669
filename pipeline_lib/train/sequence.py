"""A training of several phases, each from the result of the one before; the last result is published."""

import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.problems import trained
from pipeline_lib.store import checkpoints, manifests
from pipeline_lib.store.files import read_json_lines, write_json, write_json_lines
from pipeline_lib.store.folders import replaced
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.train.phases import Phase, Row, TrainContext, run_phase
from pipeline_lib.train.token_budget import Tokens
from pipeline_lib.train.weights import adapters, policies


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
    give the policy.

    Args:
        phases: at least one.
        source: folder or hub id of the policy to start from.
        output: folder of the result.
        context: work folder, key, seed and callbacks.
        records: JSON files of the published folder, by name.
    """
    log: list[Row] = []
    kept: dict[str, pathlib.Path] = {}
    tokens = Tokens()
    start = source
    for number, phase in enumerate(phases, 1):
        folder = run_phase(phase, source, context)
        log.extend(read_json_lines(folder / policies.LOG_NAME))
        tokens += policies.tokens_of(manifests.read_manifest(folder))
        if (folder / adapters.FOLDER).is_dir():
            kept[f"{number}-{phase.name}"] = folder / adapters.FOLDER
        source = str(folder)
    with replaced(output) as fresh:
        whole = shutil.ignore_patterns(adapters.FOLDER, trained.RECORD_NAME)
        shutil.copytree(source, fresh, dirs_exist_ok=True, ignore=whole)
        for name, folder in kept.items():
            shutil.copytree(folder, fresh / adapters.PUBLISHED / name)
        write_json_lines(fresh / policies.LOG_NAME, log)
        for name, record in (records or {}).items():
            write_json(fresh / name, record)
        manifest = manifests.seal(
            fresh, kind=policies.KIND, key=context.key, counts=policies.token_counts(tokens)
        )
        trained.write_record(fresh, context.problems, start=start)
    checkpoints.discard(context.work)
    return manifest
