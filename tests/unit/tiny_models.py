"""Tiny models that differ where real ones do: tokenizers, templates, heads, precision, shipped settings."""

import json
import pathlib
from dataclasses import dataclass, field
from typing import Any

import torch
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

PAD, BOS, EOS, UNKNOWN = "<pad>", "<bos>", "<eos>", "<unk>"
CHAT = (
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
DATED = "[today {{ strftime_now('%d %b %Y') }}]" + CHAT.removeprefix("{{ bos_token }}")
"""Prints today's date, as Llama 3 and Granite do, and no token for the beginning of a text."""


@dataclass(frozen=True, kw_only=True)
class TinyModel:
    """One row of the table: what differs from a Llama that adds no token and has no template."""

    adds_bos: bool = False
    adds_eos: bool = False
    template: str | None = None
    pad: str | None = PAD
    pieces: str = "bytes"
    """``bytes``, or SentencePiece's marks for spaces: ``first`` (of a text) or ``prepend`` (a normalizer)."""
    config: Any = LlamaConfig
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the config."""
    dtype: torch.dtype = torch.float32
    generation: dict[str, Any] | None = None
    """The model's own generation_config.json."""
    added: int = 0
    """Tokens of the tokenizer without a row in the embedding."""


TINY_MODELS = {
    "plain": TinyModel(),
    "bos": TinyModel(adds_bos=True),
    "bos and eos around a text": TinyModel(adds_bos=True, adds_eos=True),
    "template with bos, tokenizer too": TinyModel(adds_bos=True, template=CHAT),
    "template without bos": TinyModel(adds_bos=True, template=DATED),
    "dated template": TinyModel(template=DATED),
    "no pad": TinyModel(pad=None),
    "pad is eos": TinyModel(pad=EOS, adds_bos=True),
    "untied": TinyModel(settings={"tie_word_embeddings": False}),
    "sliding window": TinyModel(config=MistralConfig, settings={"sliding_window": 128}),
    "biases": TinyModel(config=Qwen2Config, template=CHAT),
    "head size of its own": TinyModel(settings={"head_dim": 16}, adds_bos=True),
    "SentencePiece, first": TinyModel(pieces="first", adds_bos=True),
    "SentencePiece, prepend": TinyModel(pieces="prepend", adds_bos=True),
    "generation config": TinyModel(generation={"temperature": 0.6, "top_p": 0.9}, adds_bos=True),
    "bfloat16 on disk": TinyModel(dtype=torch.bfloat16),
    "added tokens": TinyModel(added=3),
}


def make_tokenizer(one: TinyModel) -> PreTrainedTokenizerFast:
    """A tokenizer of single characters and bytes, with a few pieces of SentencePiece."""
    special = [PAD, BOS, EOS, UNKNOWN]
    if one.pieces == "bytes":
        vocabulary = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
        inner = Tokenizer(models.BPE(vocab=_numbered(vocabulary), merges=[]))
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        inner.decoder = decoders.ByteLevel()
    else:
        characters = [chr(code) for code in range(33, 127)]
        pieces = [f"▁{sign}" for sign in characters]
        raw = [f"<0x{byte:02X}>" for byte in range(256)]
        vocabulary = [*special, *raw, "▁", *characters, *pieces]
        merges = [("▁", sign) for sign in characters]
        inner = Tokenizer(
            models.BPE(
                vocab=_numbered(vocabulary), merges=merges, byte_fallback=True, unk_token=UNKNOWN
            )
        )
        if one.pieces == "first":
            inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        else:
            spaces = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
            inner.normalizer = normalizers.Sequence(spaces)
        inner.decoder = decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
    inner.add_special_tokens([AddedToken(text, normalized=False) for text in special])
    around = f"{BOS} $A" if one.adds_bos else "$A"
    around += f" {EOS}" if one.adds_eos else ""
    inner.post_processor = processors.TemplateProcessing(
        single=around, special_tokens=[(text, inner.token_to_id(text)) for text in (BOS, EOS)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token=BOS, eos_token=EOS, pad_token=one.pad
    )
    tokenizer.chat_template = one.template
    tokenizer.add_tokens([f"<added {i}>" for i in range(one.added)])
    return tokenizer


def _numbered(vocabulary: list[str]) -> dict[str, int]:
    return {text: number for number, text in enumerate(vocabulary)}


def save_tiny_model(one: TinyModel, folder: pathlib.Path) -> pathlib.Path:
    """A model with random weights that are far from uniform, and its tokenizer, as a Hugging Face folder."""
    tokenizer = make_tokenizer(one)
    settings = {
        "vocab_size": len(tokenizer) - one.added,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.3,
        "tie_word_embeddings": True,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = AutoModelForCausalLM.from_config(one.config(**settings | one.settings))
    model.to(one.dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if one.generation is not None:
        text = json.dumps({"eos_token_id": tokenizer.eos_token_id, **one.generation})
        (folder / "generation_config.json").write_text(text, encoding="utf-8")
    return folder
