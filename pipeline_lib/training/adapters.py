"""Low-rank adapters on all linear layers, and merging them back, so that no reader needs PEFT."""

from typing import Any

from peft import LoraConfig, PeftModel

from pipeline_lib.params import LoraParams


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
