"""QLoRA: a frozen base in 4 bits under adapters in full precision.

Source: Dettmers et al. 2023 (arXiv:2305.14314): NF4 with double quantization.
"""

import importlib.util

import torch
from transformers import BitsAndBytesConfig

from pipeline_lib.errors import BadInputError


def make_four_bit_config() -> BitsAndBytesConfig:
    """The argument of ``from_pretrained`` to hold a model in NF4 and compute in bfloat16.

    Raises:
        BadInputError: there is no CUDA device, or bitsandbytes is not installed.
    """
    if not torch.cuda.is_available():
        raise BadInputError(
            "train.lora.quantize=4bit: no CUDA device, which 4-bit weights need; "
            "set train.lora.quantize=none"
        )
    if importlib.util.find_spec("bitsandbytes") is None:
        raise BadInputError(
            "train.lora.quantize=4bit: bitsandbytes is not installed; "
            "run `pip install 'reasonloop[qlora]'`, or set train.lora.quantize=none"
        )
    return BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
