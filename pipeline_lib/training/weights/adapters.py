"""Low-rank adapters on all linear layers: made, kept beside the policy, put on a base, merged.

A policy is written merged, so that no reader needs PEFT; its adapter is kept for those who want the
difference alone. It names its base by digest, since folders move.
"""

import pathlib
from typing import Any

from peft import LoraConfig, PeftModel

from pipeline_lib.errors import BadInputError, reason_of
from pipeline_lib.params.train import LoraParams
from pipeline_lib.serving.identity import model_identity
from pipeline_lib.storage import manifests
from pipeline_lib.storage.files import read_json, write_json

FOLDER = "adapter"
"""Where the adapter of one phase lies in the phase's result."""
PUBLISHED = "adapters"
"""Where those of all phases lie in a policy's folder."""
KIND = "adapter"
_CONFIG = "adapter_config.json"


def lora_config(params: LoraParams) -> LoraConfig | None:
    """What TRL's trainers take as ``peft_config``; None means full fine-tuning.

    Source: Hu et al. 2021 (arXiv:2106.09685); all linear layers rather than attention alone.
    """
    if not params.enabled:
        return None
    return LoraConfig(
        r=params.rank,
        lora_alpha=params.alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def merged(model: Any) -> Any:
    """The plain model: adapters are added into the weights they sit on."""
    return model.merge_and_unload() if isinstance(model, PeftModel) else model


def save(model: PeftModel, folder: pathlib.Path, *, base: str) -> None:
    """Write the adapter of ``model`` as PEFT does, sealed; ``base`` is the folder or id it sits on."""
    identity = model_identity(base)
    model.save_pretrained(str(folder))
    # PEFT's card names folders of this machine, and its config lists modules in the order of a set.
    (folder / "README.md").unlink(missing_ok=True)
    config = {name: _in_order(value) for name, value in read_json(folder / _CONFIG).items()}
    write_json(folder / _CONFIG, config | {"base_model_name_or_path": identity})
    manifests.seal(folder, kind=KIND, key=identity)


def _in_order(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) and all(map(_is_text, value)) else value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def check(folder: pathlib.Path) -> manifests.Manifest | None:
    """The manifest of an adapter that is whole; None for one of another program, which has none.

    Raises:
        BadInputError: there is no adapter, or it is damaged.
    """
    if not (folder / _CONFIG).is_file():
        raise BadInputError(
            f"{folder}: no {_CONFIG}; give an adapter's folder, as models/policy/{PUBLISHED}/1-sft"
        )
    if not (folder / manifests.MANIFEST_NAME).is_file():
        return None
    manifest = manifests.read_manifest(folder)
    manifests.check(folder, manifest)
    return manifest


def check_base(folder: pathlib.Path, base: str) -> None:
    """Refuse an adapter of ours that was trained on another base than ``base``.

    Raises:
        BadInputError: the two do not belong together; the message names both digests.
    """
    manifest = check(folder)
    if manifest is not None and manifest.key != model_identity(base):
        raise BadInputError(
            f"{folder}: trained on a base with digest {manifest.key}, but {base} has "
            f"{model_identity(base)}; give that base, and all adapters on it in order"
        )


def load(model: Any, folder: pathlib.Path) -> PeftModel:
    """Put the adapter of ``folder`` on ``model``.

    Raises:
        BadInputError: its layers or shapes are not those of ``model``, or it names code to import.
    """
    config = read_json(folder / _CONFIG)
    if not isinstance(config, dict) or config.get("megatron_config"):
        raise BadInputError(f"{folder}: {_CONFIG} is of no plain adapter; save it with PEFT again")
    try:
        return PeftModel.from_pretrained(model, folder)
    except Exception as error:  # PEFT raises whatever its parts do
        raise BadInputError(f"{folder}: does not fit this model ({reason_of(error)})") from error
