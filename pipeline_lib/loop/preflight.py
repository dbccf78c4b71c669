"""Checks before a run: what its params name exists, and its workspace has room for the results."""

import pathlib
import shutil
import tempfile

from pipeline_lib.errors import BadInputError, ReasonloopError, reason_of
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.splits import make_splits
from pipeline_lib.problems.table import GENERATED
from pipeline_lib.serving.engines.table import ENGINES, check_engine, engine_named
from pipeline_lib.storage.workspace import Workspace

_FLOAT_BYTES = 4
_BYTES_PER_TOKEN = 4
_BYTES_PER_PATH = 300
"""Of a path's row and verdict, besides its text."""
_COPIES = 2 * 3
"""Checkpoints kept by a training, each with the weights and two moments of AdamW."""


def check_params(params: Params) -> None:
    """Check what the params name: data set, model, engine, trackers.

    Raises:
        BadInputError: one of them cannot be used by the loop.
    """
    if params.execution.report_to:
        from pipeline_lib.training.tracking.trackers import Trackers  # noqa: PLC0415 - transformers

        Trackers(names=params.execution.report_to, folder=pathlib.Path()).check()
    if params.prepare.dataset != GENERATED:
        # The stage `prepare` checks golds, in another process.
        make_splits(params.prepare, seed=params.seed, gold_problem=lambda _: None)
    model = params.bootstrap.model
    if model is not None and _is_path(model) and not pathlib.Path(model).is_dir():
        raise BadInputError(f"bootstrap.model: {model} is not a folder; give one, or a hub id")
    check_engine(params.serve)
    if engine_named(params.serve.engine).is_external:
        others = [name for name, engine in ENGINES.items() if not engine.is_external]
        raise BadInputError(
            f"serve.engine={params.serve.engine}: the loop draws from policies that it trains, and "
            f"a running server has its own model; set one of {', '.join(others)} (`reasonloop "
            "sample` can use a running server)"
        )


def _is_path(model: str) -> bool:
    """True if ``model`` can only be a folder: a hub id is NAME or OWNER/NAME."""
    return model.startswith((".", "/", "~")) or model.count("/") > 1


def check_writable(root: pathlib.Path) -> None:
    """Check that files can be written to the workspace.

    Raises:
        ReasonloopError: they cannot.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root) as probe:
            probe.write(b"0")
    except OSError as error:
        raise ReasonloopError(
            f"{root}: cannot be written ({reason_of(error)}); pass another --workspace"
        ) from error


def check_space(root: pathlib.Path, params: Params) -> None:
    """Check that the disk has room for what the run will still write; needs the lease.

    Raises:
        ReasonloopError: it has not.
    """
    free = shutil.disk_usage(root).free
    needed = needed_bytes(params) - _written_bytes(root)
    if free < needed:
        raise ReasonloopError(
            f"{root}: {free / 2**20:.0f} MiB free, and the run will need about "
            f"{needed / 2**20:.0f} MiB; free some, or pass a --workspace on another disk"
        )


def _written_bytes(root: pathlib.Path) -> int:
    """Bytes of results that exist: a resumed run needs room for the rest alone."""
    folders = (root / "data", root / "models")
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    releases = Workspace(root).releases
    return sum(file.stat().st_size for file in files if releases not in file.parents)


def needed_bytes(params: Params) -> int:
    """Estimate of what a run from nothing writes: policies, checkpoints of two trainings, paths."""
    weights = _weight_bytes(params)
    policies = 2 + params.rounds  # the base, its control, and one per round
    num_paths = (
        params.rounds * params.prepare.train_problems * params.sample.num_paths
        + 3 * params.prepare.test_problems * params.evaluate.num_paths
    )
    path_bytes = _BYTES_PER_PATH + _BYTES_PER_TOKEN * params.sample.max_new_tokens
    return weights * (policies + 2 * _COPIES) + num_paths * path_bytes


def _weight_bytes(params: Params) -> int:
    """Bytes of a policy's weights; 0 for one of a hub, whose size is unknown before the download."""
    bootstrap = params.bootstrap
    if bootstrap.model is None:
        # A transformer block has about 12 d^2 weights: 4 of attention, 8 of the MLP.
        return _FLOAT_BYTES * 12 * bootstrap.num_layers * bootstrap.hidden_size**2
    folder = pathlib.Path(bootstrap.model)
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))
