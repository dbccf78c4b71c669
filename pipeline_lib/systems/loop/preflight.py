"""Checks before a run: what its params name exists, and its workspace has room for the results."""

import pathlib
import shutil

from pipeline_lib.engines.known.table import check_own_engine
from pipeline_lib.engines.running_engine import check_model
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.loading import GENERATED
from pipeline_lib.problems.splits import make_splits
from pipeline_lib.store.files import read_json
from pipeline_lib.store.manifests import MANIFEST_NAME
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.plan import evaluation_draws
from pipeline_lib.systems.stage import Run

_PACKED = (".gguf", ".whl")
_FLOAT_BYTES = 4
_BYTES_PER_TOKEN = 4
_BYTES_PER_PATH = 300
"""Of a path's row and verdict, besides its text."""
_CHECKPOINT_COPIES = 2 * 3
"""Checkpoints kept by a training, each with the weights and two moments of AdamW, in float32."""
_HALF_PRECISION = ("bfloat16", "float16")
_TRAININGS_AT_ONCE = 2
"""The control runs beside the rounds; checkpoints of a finished training are removed."""


def check_run(run: Run, *, draws: bool = True) -> None:
    """Check what the params name: data set, model, engine; with ``draws`` also that the engine is installed.

    Raises:
        BadInputError: one of them cannot be used by the loop.
    """
    params = run.params
    if params.prepare.dataset not in GENERATED:
        # The stage `prepare` checks golds, in another process.
        make_splits(params.prepare, seed=params.seed, gold_problem=lambda _: None)
    if params.bootstrap.model is not None:
        _check_model(params.bootstrap.model)
    check_own_engine(params.serve, is_started=draws)


def _check_model(model: str) -> None:
    path = pathlib.Path(model)
    if model.lower().endswith(_PACKED) or (
        any(path.glob("*.gguf")) and not (path / "config.json").exists()
    ):
        raise BadInputError(
            f"bootstrap.model: {model} is a GGUF model; convert it with "
            "`reasonloop import-model FILE --output FOLDER`, and give FOLDER"
        )
    try:
        check_model(model)
    except BadInputError as error:
        raise BadInputError(f"bootstrap.model: {error}") from error


def check_space(root: pathlib.Path, params: Params) -> None:
    """Check that the disk has room for what the run will still write; needs the lease.

    Raises:
        ReasonloopError: it has not.
    """
    free = shutil.disk_usage(root).free
    needed = needed_bytes(root, params)
    if free < needed:
        raise ReasonloopError(
            f"{root}: {free / 2**20:.0f} MiB free, and the run will need about "
            f"{needed / 2**20:.0f} MiB; free some, or pass a --workspace on another disk"
        )


def needed_bytes(root: pathlib.Path, params: Params) -> int:
    """Estimate of what a run in ``root`` will still write: policies, checkpoints, paths."""
    workspace = Workspace(root)
    rounds = range(1, params.rounds + 1)
    policies = (workspace.policy(number, rounds=params.rounds) for number in rounds)
    missing = sum(not _is_sealed(each) for each in (workspace.base, workspace.control, *policies))
    copied = int(params.bootstrap.format_steps == 0 and not _is_sealed(workspace.base))
    weights, stored_bytes = _weights(params)
    policy_bytes = copied * stored_bytes + (missing - copied) * _FLOAT_BYTES
    if params.train.lora.enabled:  # checkpoints of adapters are small
        at_once = int(params.bootstrap.format_steps > 0 and not _is_sealed(workspace.base))
    else:
        at_once = min(missing, _TRAININGS_AT_ONCE)
    trained_bytes = at_once * _CHECKPOINT_COPIES * _FLOAT_BYTES
    checkpoints = sum(map(_bytes_in, (root / "models").glob(".*")))
    drawn = params.prepare.train_problems * params.sample.num_paths
    evaluated = params.prepare.test_problems * params.evaluate.num_paths
    draws = [(workspace.round_folders(number), drawn) for number in rounds]
    planned = evaluation_draws(params, control_is_base=False)
    draws += [(workspace.evaluation(draw.folder), evaluated) for draw in planned]
    path_bytes = _BYTES_PER_PATH + _BYTES_PER_TOKEN * params.sample.max_new_tokens
    return max(0, weights * (policy_bytes + trained_bytes) - checkpoints) + sum(
        max(0, num_paths * path_bytes - _bytes_in(folders.paths) - _bytes_in(folders.verdicts))
        for folders, num_paths in draws
        if not _is_sealed(folders.verdicts)
    )


def _is_sealed(folder: pathlib.Path) -> bool:
    return (folder / MANIFEST_NAME).is_file()


def _bytes_in(folder: pathlib.Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _weights(params: Params) -> tuple[int, int]:
    """Weights of a policy and bytes of each as stored; 0 weights for one of a hub, unknown before the download."""
    bootstrap = params.bootstrap
    if bootstrap.model is None:
        # A transformer block has about 12 d^2 weights: 4 of attention, 8 of the MLP.
        return 12 * bootstrap.num_layers * bootstrap.hidden_size**2, _FLOAT_BYTES
    folder = pathlib.Path(bootstrap.model)
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    config = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    is_half = config.get("dtype", config.get("torch_dtype")) in _HALF_PRECISION
    stored_bytes = _FLOAT_BYTES // 2 if is_half else _FLOAT_BYTES
    return size // stored_bytes, stored_bytes
