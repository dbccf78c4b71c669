"""A tiny random model with its tokenizer, in Hugging Face format."""

import pathlib

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ["<pad>", "<eos>", "a", "b", "c", "d"]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A Llama of two layers over six tokens, with weights that make it far from uniform."""
    folder = tmp_path_factory.mktemp("tiny-model")
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="a"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>"
    )
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(WORDS),
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=4,
                max_position_embeddings=128,
                initializer_range=0.4,
                pad_token_id=0,
                eos_token_id=1,
                bos_token_id=None,
            )
        )
    model.save_pretrained(folder)
    return folder
