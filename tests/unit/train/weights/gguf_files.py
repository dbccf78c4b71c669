"""A tiny Llama as a GGUF file, written with the package that llama.cpp's own converter uses."""

import pathlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

import gguf
import numpy as np
import torch
from tokenizers import pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

CONTEXT = 96
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ċ Ċ", "Ġ Ġ", "Ġ a", "a b", "1 2", "ĊĊ Ċ"]
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def vocabulary() -> list[str]:
    return [
        *SPECIAL,
        *sorted(pre_tokenizers.ByteLevel.alphabet()),
        *(merge.replace(" ", "") for merge in MERGES),
    ]


def tiny_llama(*, context: int = CONTEXT, spread: float = 0.3) -> LlamaForCausalLM:
    """Random weights of standard deviation ``spread``, tied, with fewer key-value heads than heads; widths are multiples of GGUF's block of 32."""
    config = LlamaConfig(
        vocab_size=len(vocabulary()),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = LlamaForCausalLM(config)
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=spread)
    return model.eval()


def write_gguf(
    path: pathlib.Path,
    model: LlamaForCausalLM,
    *,
    pre_tokenizer: str = "smollm",
    architecture: str = "llama",
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    adds_bos: bool = False,
    without: str | None = None,
    more: Mapping[str, np.ndarray] = MappingProxyType({}),
    fields: Callable[[gguf.GGUFWriter], None] = lambda _: None,
) -> pathlib.Path:
    """Write ``model``, its matrices in the precision ``kind``.

    Args:
        without: a tensor that is left out.
        more: further tensors.
        fields: adds further fields.
    """
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("Tiny Llama")
    writer.add_license("apache-2.0")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    _add_tokenizer(writer, pre_tokenizer, adds_bos=adds_bos)
    fields(writer)
    for name, values in [*_tensors(model), *more.items()]:
        if name == without:
            continue
        if values.ndim == 1:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: gguf.GGUFWriter, pre_tokenizer: str, *, adds_bos: bool) -> None:
    tokens = vocabulary()
    writer.add_tokenizer_model("gpt2")
    if pre_tokenizer:
        writer.add_tokenizer_pre(pre_tokenizer)
    writer.add_token_list(tokens)
    kinds = gguf.TokenType
    writer.add_token_types(
        [kinds.CONTROL if token in SPECIAL else kinds.NORMAL for token in tokens]
    )
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(adds_bos)
    writer.add_chat_template(CHAT)


def _tensors(model: LlamaForCausalLM) -> list[tuple[str, np.ndarray]]:
    config, state = model.config, model.state_dict()
    found = [
        ("token_embd.weight", state["model.embed_tokens.weight"].numpy()),
        ("output_norm.weight", state["model.norm.weight"].numpy()),
    ]
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for layer in range(config.num_hidden_layers):
        for ours, theirs in _LAYER_NAMES.items():
            values = state[f"model.layers.{layer}.{ours}.weight"].numpy()
            if theirs in heads:
                values = _interleaved(values, heads[theirs])
            found.append((f"blk.{layer}.{theirs}.weight", values))
    return found


def _interleaved(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows in llama.cpp's order: the two halves that a rotary embedding pairs lie beside each other."""
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, values.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))
