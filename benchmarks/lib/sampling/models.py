"""Two small Llamas, or a given model, and prompts for them, from fixed seeds.

The weights of the small ones are random, so next tokens are nearly uniform. Several tokens of the vocabulary end a text,
which makes lengths geometric: many short texts, a long tail, and a few at the limit.
"""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, LlamaForCausalLM

from pipeline_lib.engines.pretrained import chat_format_of, load_tokenizer
from pipeline_lib.params.paths import BootstrapParams, CountdownParams, WordProblemParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.problems.word_problems import splits
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.train.bootstrap import make_tokenizer

SEED = 7
CONTEXT = 512
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = "bfloat16" if DEVICE == "cuda" else "float32"
"""Precision of the small models; the embedded engine's default."""
SHOTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Shape of a model and of its prompts."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    prompt_tokens: tuple[int, int]
    """Minimum and maximum; lengths are uniform between them."""


_POLICY = BootstrapParams()
SHAPES = {
    # the default base policy, with prompts of the length of Countdown's
    "policy": Shape(
        hidden_size=_POLICY.hidden_size,
        intermediate_size=3 * _POLICY.hidden_size,
        num_layers=_POLICY.num_layers,
        num_heads=_POLICY.num_heads,
        prompt_tokens=(7, 12),
    ),
    "llama-4.8m": Shape(
        hidden_size=256,
        intermediate_size=688,
        num_layers=6,
        num_heads=8,
        prompt_tokens=(20, 80),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The workload of every side."""

    model: str
    prompts: tuple[tuple[int, ...], ...]
    paths: int
    """Paths per prompt."""
    max_new_tokens: int
    end_ids: tuple[int, ...]
    dtype: str = DTYPE
    temperature: float = 1.0


def make_model(shape: Shape, folder: pathlib.Path, *, ends: int) -> tuple[int, ...]:
    """Save model and tokenizer; return the end-of-text ids, the tokenizer's own first."""
    problems = generate(CountdownParams(), seed=SEED, count=2000)
    rows = solution_rows(problems, None)
    tokenizer = make_tokenizer([row["prompt"] + row["completion"] for row in rows])
    end_ids = (tokenizer.eos_token_id, *range(len(tokenizer) - ends + 1, len(tokenizer)))
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    torch.manual_seed(SEED)  # noqa: TID251 - weights of a throw-away model
    model = LlamaForCausalLM(config)  # type: ignore[no-untyped-call]
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        eos_token_id=list(end_ids), pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return end_ids


def load_model(folder: str, dtype: str) -> Any:
    """The model for the sides that run in torch."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, trust_remote_code=False)
    return model.to(DEVICE).eval()


def random_prompts(
    shape: Shape, count: int, folder: str, *, end_ids: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """Prompts of random tokens of the model in ``folder``, none of them an end or padding."""
    vocabulary = len(load_tokenizer(folder))
    generator = np.random.default_rng(SEED)
    ordinary = np.array([i for i in range(2, vocabulary) if i not in set(end_ids)])
    low, high = shape.prompt_tokens
    return tuple(
        tuple(generator.choice(ordinary, size=size).tolist())
        for size in generator.integers(low, high + 1, size=count)
    )


def given_model(folder: str, count: int) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Prompts of word problems after `SHOTS` worked ones, and the end-of-text ids of a model in a folder."""
    tokenizer = load_tokenizer(folder)
    problems = splits(
        WordProblemParams(steps=(1,)), seed=SEED, counts={"test": count, "bootstrap": SHOTS}
    )
    chat_format = chat_format_of(tokenizer)
    texts = [
        render(problem, chat_format, examples=problems["bootstrap"]) for problem in problems["test"]
    ]
    prompts = tuple(tuple(tokenizer.encode(text, add_special_tokens=False)) for text in texts)
    return prompts, (tokenizer.eos_token_id,)
