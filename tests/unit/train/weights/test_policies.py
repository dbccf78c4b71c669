"""Policies on disk: loaded and saved with the tokenizer of their source."""

import pathlib
import shutil

import pytest
from tokenizers import processors
from transformers import AutoTokenizer

from pipeline_lib.errors import BadInputError
from pipeline_lib.train.token_budget import Tokens
from pipeline_lib.train.weights.policies import load_policy, save_policy


@pytest.fixture
def greeting(base: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """The base with a tokenizer that prepends its pad token to every text, as others do a BOS."""
    folder = tmp_path / "greeting"
    shutil.copytree(base, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<pad> $A", special_tokens=[("<pad>", tokenizer.pad_token_id)]
    )
    tokenizer.save_pretrained(folder)
    return folder


def test_a_saved_policy_has_the_tokenizer_of_its_source(
    greeting: pathlib.Path, tmp_path: pathlib.Path
):
    """A pad token that training sets is not saved, and a token before each text stays."""
    policy = load_policy(str(greeting))
    save_policy(
        policy.model,
        tmp_path / "out",
        source=str(greeting),
        log=[],
        key="k",
        tokens=Tokens(trained=7, drawn=5),
    )
    saved = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert saved("3")["input_ids"][0] == saved.pad_token_id


def test_a_tokenizer_without_an_end_token_is_bad_input(base: pathlib.Path, tmp_path: pathlib.Path):
    """Training needs an end token; the message names the remedy."""
    folder = tmp_path / "endless"
    shutil.copytree(base, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.eos_token = None
    tokenizer.save_pretrained(folder)
    with pytest.raises(BadInputError, match="no eos_token"):
        load_policy(str(folder))
