"""Models with plain weights: loaded, held in float32, merged with adapters, written.

Every model is loaded and written here, so that one that can be loaded can be saved.
"""

import importlib.util
import pathlib
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FSDPModule
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, GenerationConfig

from pipeline_lib.engines.model_config import RECORD
from pipeline_lib.engines.pretrained import load_pretrained
from pipeline_lib.errors import BadInputError
from pipeline_lib.train.weights import adapters


def training_dtype(*, trains_weights: bool, on_gpu: bool) -> torch.dtype:
    """float32 for weights that are trained: bfloat16 loses updates below half of its step, and AdamW's with them.

    A frozen base under adapters is bfloat16 on a GPU. Autocast multiplies in bfloat16 there in both cases.
    """
    return torch.bfloat16 if on_gpu and not trains_weights else torch.float32


def load_model(source: str, **options: Any) -> Any:
    """The model of a Hugging Face folder or hub id.

    Raises:
        BadInputError: the model cannot be read.
    """
    model = load_pretrained(AutoModelForCausalLM.from_pretrained, source, **options)
    model.generation_config = _valid(model.generation_config)
    return model


def load_in_float32(source: str) -> Any:
    """The model in float32; its config records the stored precision, in which it is drawn.

    Raises:
        BadInputError: the model cannot be read.
    """
    model = load_model(source, dtype="auto")
    if model.dtype is not torch.float32:
        setattr(model.config, RECORD, str(model.dtype).removeprefix("torch."))
    return model.float()


def load_merged(source: str, on_top: Sequence[pathlib.Path]) -> Any:
    """The model of ``source`` in float32, with the adapters ``on_top`` added to its weights in this order.

    Raises:
        BadInputError: a model or adapter cannot be read or does not fit.
    """
    model = load_in_float32(source)
    for folder in on_top:
        adapters.check(folder)
        model = adapters.merge(adapters.load(model, folder))
    return model


def make_quantization_config(precision: Literal["8bit", "4bit"]) -> BitsAndBytesConfig:
    """The argument of ``from_pretrained`` to hold a base in int8, or in NF4 with double quantization.

    Products are float16 with int8, bfloat16 with NF4. Sources: Dettmers et al. 2022 (arXiv:2208.07339), LLM.int8;
    Dettmers et al. 2023 (arXiv:2305.14314), QLoRA.

    Raises:
        BadInputError: there is no CUDA device, or bitsandbytes is not installed.
    """
    if not torch.cuda.is_available():
        raise BadInputError(
            f"train.lora.quantize={precision}: no CUDA device, which {precision} weights need; "
            "set train.lora.quantize=none"
        )
    if importlib.util.find_spec("bitsandbytes") is None:
        raise BadInputError(
            f"train.lora.quantize={precision}: bitsandbytes is not installed; "
            "run `pip install 'reasonloop[qlora]'`, or set train.lora.quantize=none"
        )
    return BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_8bit=precision == "8bit",
        load_in_4bit=precision == "4bit",
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def save_model(model: Any, folder: pathlib.Path, weights: dict[str, Any] | None = None) -> None:
    """Write a model, or the adapter of a model with one, in its present precision.

    ``weights`` are those of a model of shards, by `whole_weights`.
    """
    model.save_pretrained(folder, **({} if weights is None else {"state_dict": weights}))


def whole_weights(model: Any) -> dict[str, Any] | None:
    """The weights of a model of shards, in the first process; None if every process has all.

    Every process must call it.
    """
    if not isinstance(model, FSDPModule):
        return None
    shards: Any = model
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_model_state_dict(shards, options=whole)


def _valid(config: GenerationConfig) -> GenerationConfig:
    """A config that transformers agrees to save; it loads others.

    Models are shipped with a temperature and without ``do_sample``. Other faults leave the end tokens alone.
    """
    for _ in range(2):
        try:
            config.validate(strict=True)
        except ValueError:
            config.do_sample = True
        else:
            return config
    return GenerationConfig(eos_token_id=config.eos_token_id)  # type: ignore[no-untyped-call]
