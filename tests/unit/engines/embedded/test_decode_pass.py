"""The batch decodes any attention-only causal model of transformers, by the pass that supports it."""

from typing import Any

import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from pipeline_lib.engines.embedded.decode_pass import (
    PADDED_PASS,
    SUB_BATCH_PASS,
    choose_decode_pass,
)
from pipeline_lib.errors import BadInputError
from tests.unit.engines.embedded.decoded_sequences import (
    batch_of,
    generate_greedy,
    run_until_idle,
    sequence,
    tokens_of,
)

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}
GROUPED = SMALL | {"num_key_value_heads": 2}
GEMMA = GROUPED | {"head_dim": 8, "sliding_window": 8, "query_pre_attn_scalar": 8}
OLD = {
    "vocab_size": 64,
    "hidden_size": 32,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}
LATENT = SMALL | {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}

MODELS = {
    "grouped heads": ("Llama", GROUPED, SUB_BATCH_PASS),
    "biases": ("Qwen2", GROUPED, SUB_BATCH_PASS),
    "normed queries": ("Qwen3", GROUPED | {"head_dim": 8}, SUB_BATCH_PASS),
    "learned positions": (
        "GPT2",
        {k: OLD[k] for k in OLD if k != "hidden_size"} | {"n_embd": 32, "n_layer": 2, "n_head": 4},
        SUB_BATCH_PASS,
    ),
    "parallel residuals": ("GPTNeoX", SMALL, SUB_BATCH_PASS),
    "sliding window": ("Mistral", GROUPED | {"sliding_window": 8}, PADDED_PASS),
    "capped scores": (
        "Gemma2",
        GEMMA | {"layer_types": ["full_attention"] * 2, "attn_logit_softcapping": 1.0},
        PADDED_PASS,
    ),
    "some layers with a window": ("Gemma3Text", GEMMA | {"num_hidden_layers": 6}, PADDED_PASS),
    "linear biases": ("Bloom", OLD | {"n_layer": 2, "n_head": 4}, PADDED_PASS),
    "sinks": ("GptOss", GROUPED | {"head_dim": 8, "num_local_experts": 4}, PADDED_PASS),
    "latent keys": ("DeepseekV3", LATENT, PADDED_PASS),
}


def made(name: str, options: dict[str, Any]) -> Any:
    torch.set_num_threads(1)
    config = getattr(transformers, f"{name}Config")(**options)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config).eval()


def mixed_sequences() -> list[Any]:
    """Ten sequences of different lengths, so that they are padded, end apart and are merged."""
    generator = torch.Generator().manual_seed(1)
    lengths = [3, 12, 1, 7, 20, 5, 9, 2, 15, 4]
    return [
        sequence(i, torch.randint(2, 64, (length,), generator=generator).tolist(), limit=4 + 3 * i)
        for i, length in enumerate(lengths)
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", MODELS)
def test_greedy_sequences_equal_generate(kind):
    """Ten sequences in a batch of four, for each kind of attention."""
    name, options, expected_pass = MODELS[kind]
    model = made(name, options)
    assert choose_decode_pass(model) is expected_pass
    batch = batch_of(model, max_sequences=4)
    sequences = mixed_sequences()
    batch.add(sequences)
    assert tokens_of(run_until_idle(batch)) == {
        one.id: generate_greedy(model, one) for one in sequences
    }


def test_an_adapter_is_applied():
    """A model with a LoRA adapter draws the tokens of its own `generate`, not those of its base."""
    base = made("Llama", GROUPED)
    sequences = mixed_sequences()
    plain = {one.id: generate_greedy(base, one) for one in sequences}
    config = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = get_peft_model(base, config, autocast_adapter_dtype=False).eval()
    assert choose_decode_pass(model) is SUB_BATCH_PASS
    batch = batch_of(model, max_sequences=4)
    batch.add(sequences)
    drawn = tokens_of(run_until_idle(batch))
    assert drawn == {one.id: generate_greedy(model, one) for one in sequences}
    assert drawn != plain


def with_error(model: Any, *, sub_batch: float, padded: float) -> Any:
    """``model`` with an error in its own precision, as a share of the largest logit: ``sub_batch`` in
    the sub-batch pass, ``padded`` in the padded pass. In other precisions it is exact.
    """
    own_dtype = model.dtype

    def disturb(_module: Any, _args: Any, kwargs: Any, output: Any) -> None:
        if output.logits.dtype == own_dtype:
            share = padded if kwargs["use_cache"] else sub_batch
            output.logits[..., 9] += share * output.logits.abs().max()

    model.register_forward_hook(disturb, with_kwargs=True)
    return model


@pytest.mark.parametrize(
    ("dtype", "sub_batch", "padded", "expected"),
    [
        (torch.float32, 5e-4, 0, SUB_BATCH_PASS),
        (torch.float32, 5e-3, 0, PADDED_PASS),
        (torch.float32, 0, 5e-3, PADDED_PASS),
        (torch.bfloat16, 0.02, 0, SUB_BATCH_PASS),
        (torch.bfloat16, 0.3, 0, PADDED_PASS),
        (torch.bfloat16, 0, 0.3, SUB_BATCH_PASS),
        (torch.bfloat16, -0.2, 0.3, SUB_BATCH_PASS),
        (torch.bfloat16, -0.3, 0.2, PADDED_PASS),
    ],
)
def test_a_pass_is_chosen_by_its_distance_from_float32(dtype, sub_batch, padded, expected):
    """In float32 the passes must agree to 0.1 % of the largest logit. In bfloat16 the sub-batch pass may
    be off by 5 %, or by as much as the padded one. Rounding is about 2 %, far less than the
    differences between the cases.
    """
    model = with_error(made("Llama", GROUPED).to(dtype), sub_batch=sub_batch, padded=padded)
    weights = {name: weight.clone() for name, weight in model.named_parameters()}
    assert choose_decode_pass(model) is expected
    for name, weight in model.named_parameters():
        assert weight.dtype == dtype
        assert torch.equal(weight, weights[name])


def test_a_half_precision_model_without_float32_form_takes_the_padded_pass():
    """It reads a submodule's weight without calling it, so that float32 meets bfloat16."""
    model = with_error(made("Llama", GROUPED).to(torch.bfloat16), sub_batch=0, padded=0.3)
    block = model.model.layers[0].mlp

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        return block.down_proj(torch.nn.functional.linear(hidden, block.up_proj.weight))

    block.forward = forward
    assert choose_decode_pass(model) is PADDED_PASS


def test_passes_are_tried_on_the_models_own_text():
    """A token from the middle of the vocabulary and its greedy continuation: control tokens have the
    first or last ids, and on random tokens a trained model's logits are chaotic. 0 pads the shorter
    prompt and is masked.
    """
    model = made("Llama", GROUPED | {"vocab_size": 1000})
    own = model.generate(torch.tensor([[500]]), max_new_tokens=11, do_sample=False)[0].tolist()
    tried: set[int] = set()
    model.register_forward_pre_hook(
        lambda _module, _args, kwargs: tried.update(kwargs["input_ids"].flatten().tolist()),
        with_kwargs=True,
    )
    assert choose_decode_pass(model) is SUB_BATCH_PASS
    assert tried - {0} == set(own) - {0}


def test_a_model_with_recurrent_states_is_refused():
    """A state-space model has no keys and values; the message names the remedy."""
    options = {k: OLD[k] for k in OLD if k != "initializer_range"}
    with pytest.raises(BadInputError, match="serve it with vLLM"):
        choose_decode_pass(made("Mamba", options | {"num_hidden_layers": 2}))
