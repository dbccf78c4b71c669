"""Builds, saves and loads latent models: safetensors weights, config and training log."""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import torch
from pydantic import BaseModel
from safetensors.torch import load_file, save_file
from torch import Tensor

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.prr import PrrLossParams, PrrModelParams
from pipeline_lib.store import manifests
from pipeline_lib.store.files import atomic_file, read_checked, write_json, write_json_lines
from pipeline_lib.store.folders import replaced
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.prr.data.dataset_files import IDENTIFIERS_NAME, PuzzleSet
from pipeline_lib.systems.prr.model.batches import Sizes
from pipeline_lib.systems.prr.model.prr import PrrModel
from pipeline_lib.systems.prr.model.trm import TrmModel

KIND = "latent-model"
WEIGHTS_NAME = "model.safetensors"
CONFIG_NAME = "config.json"
LOG_NAME = "training_log.jsonl"


class SavedConfig(BaseModel, extra="forbid", frozen=True):
    """Everything needed to build a model, and the digest of its puzzles."""

    model: PrrModelParams
    loss: PrrLossParams
    sizes: Sizes
    identifiers: str | None = None
    """Digest of the names of its puzzle vectors, as `PuzzleSet.identifiers_digest`."""


def build_model(
    params: PrrModelParams, sizes: Sizes, *, loss: PrrLossParams
) -> PrrModel | TrmModel:
    """A model with weights from torch's default generator. TRM ignores ``loss``."""
    if params.kind == "trm":
        return TrmModel(params, sizes)
    return PrrModel(params, sizes, loss=loss)


def model_sizes(data: PuzzleSet) -> Sizes:
    """Sizes of a model for these data."""
    metadata = data.metadata
    return Sizes(
        vocab_size=metadata.vocab_size,
        seq_len=metadata.seq_len,
        num_puzzle_ids=metadata.num_puzzle_identifiers,
    )


def save_model(
    weights: Mapping[str, Tensor],
    output: pathlib.Path,
    *,
    config: SavedConfig,
    log: Sequence[Mapping[str, float]],
    key: str,
) -> Manifest:
    """Write a model with these ``weights`` atomically to ``output``, replacing an older one."""
    steps = log[-1]["step"] if log else 0
    with replaced(output) as fresh:
        with atomic_file(fresh / WEIGHTS_NAME) as temporary:
            save_file(to_storable(weights), temporary)
        write_json(fresh / CONFIG_NAME, config.model_dump(mode="json"))
        write_json_lines(fresh / LOG_NAME, log)
        return manifests.seal(fresh, kind=KIND, key=key, counts={"steps": steps})


def read_config(folder: pathlib.Path) -> SavedConfig:
    """Config of a trained model.

    Raises:
        BadInputError: there is no model, or it is damaged.
    """
    if not (folder / CONFIG_NAME).is_file():
        raise BadInputError(f"{folder}: no latent model; train one with `reasonloop prr train`")
    return read_checked(folder / CONFIG_NAME, SavedConfig, remedy="train the model again")


def check_compatible(model: pathlib.Path, data: PuzzleSet, *, folder: pathlib.Path) -> None:
    """Check that the saved ``model`` was trained for ``data``, read from ``folder``.

    Other sizes fail at run time anyway; other identifiers would silently assign the puzzle vectors to other puzzles.

    Raises:
        BadInputError: there is no model, or it was trained for other data.
    """
    config = read_config(model)
    known, asked = asdict(config.sizes), asdict(model_sizes(data))
    for name, size in known.items():
        if size != asked[name]:
            raise BadInputError(
                f"{model}: trained for {name}={size}, but {folder} has {name}={asked[name]}; "
                "use the data that it was trained on"
            )
    if config.identifiers not in {None, data.identifiers_digest}:
        raise BadInputError(
            f"{model}: trained with another {IDENTIFIERS_NAME} than {folder} has, so that its "
            "puzzle vectors belong to other versions; use the data that it was trained on"
        )


def load_model(folder: pathlib.Path, *, device: torch.device) -> PrrModel | TrmModel:
    """A trained model in evaluation mode.

    Raises:
        BadInputError: there is no model, or it is damaged.
    """
    config = read_config(folder)
    manifests.check(folder, manifests.read_manifest(folder))
    model = build_model(config.model, config.sizes, loss=config.loss)
    model.load_state_dict(load_file(folder / WEIGHTS_NAME))
    return model.to(device).eval()


def to_storable(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous copies on the CPU: safetensors rejects tensors that share memory."""
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
