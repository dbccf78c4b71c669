"""Rows of a batch that are computed at once."""

import pathlib

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig

from pipeline_lib.train.memory import fitting_rows, longest_row

SMOL = LlamaConfig(hidden_size=576, num_hidden_layers=30, num_attention_heads=9, vocab_size=49152)
TINY = LlamaConfig(hidden_size=128, num_hidden_layers=4, num_attention_heads=4, vocab_size=300)
on_a_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="another amount of memory")


@on_a_cpu
def test_a_small_model_takes_the_whole_batch():
    """The policy of the demo, with 64 rows of 60 tokens."""
    assert fitting_rows(TINY, batch_size=64, row_tokens=60) == 64


@on_a_cpu
def test_a_real_model_takes_less():
    """64 rows of 250 tokens of a model of 135 million weights need 39 GB by the estimate: 2 rows fit. The
    number divides the batch; checkpointing makes room for more; one row is the least.
    """
    assert fitting_rows(SMOL, batch_size=64, row_tokens=250) == 2
    assert fitting_rows(SMOL, batch_size=9, row_tokens=250) == 3
    assert fitting_rows(SMOL, batch_size=64, row_tokens=250, checkpointing=True) == 8
    assert fitting_rows(SMOL, batch_size=7, row_tokens=8000) == 1


def test_the_longest_row(base: pathlib.Path):
    """Tokens of both texts and an end token."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    rows = [
        {"prompt": "1,2=3\n", "completion": "1+2=3"},
        {"prompt": "1,2,4=7\n", "completion": "1+2=3\n3+4=7"},
    ]
    longest = sum(len(tokenizer.encode(text)) for text in rows[1].values()) + 1
    assert longest_row(rows, tokenizer, "completion") == longest
    assert longest_row(rows, tokenizer) < longest
