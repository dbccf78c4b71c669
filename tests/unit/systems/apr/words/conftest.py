"""A tiny language model with a chat template, and questions in parts."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from pipeline_lib.systems.apr.data_folder import generate_data
from pipeline_lib.train.bootstrap import save_blank_llama
from tests.unit.systems.apr.words.tiny_words import DATA, TEMPLATE


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Bytes are its tokens, but ``>`` with a line feed is one, as in Qwen's tokenizer."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = [*alphabet, ">Ċ", "<|end|>", "<|user|>", "<|assistant|>"]
    vocabulary = {name: place for place, name in enumerate(names)}
    plain = Tokenizer(models.BPE(vocabulary, merges=[(">", "Ċ")]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    plain.decoder = decoders.ByteLevel()
    special = {"eos_token": "<|end|>", "additional_special_tokens": ["<|user|>", "<|assistant|>"]}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, chat_template=TEMPLATE, pad_token="<|end|>", **special
    )
    folder = tmp_path_factory.mktemp("language-model")
    save_blank_llama(
        folder,
        tokenizer,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=4096,
    )
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts") / "data"
    generate_data(DATA, folder, seed=3, workers=1)
    return folder
