"""Rotary forms that look at the longest row: a path equals that drawn alone, or is refused."""

import pathlib
import shutil

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.model_config import context_of, declared_context
from pipeline_lib.errors import BadInputError

ORIGINAL = 32
FORMS = {
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "longrope": {
        "rope_type": "longrope",
        "short_factor": [1.0] * 4,
        "long_factor": [8.0] * 4,
        "factor": 4.0,
        "original_max_position_embeddings": ORIGINAL,
    },
}


@pytest.fixture(scope="module", params=list(FORMS))
def model(request, tiny_model, tmp_path_factory) -> pathlib.Path:
    """A tiny Llama with the form; the longest path as of its pre-training has 32 tokens."""
    folder = tmp_path_factory.mktemp(request.param) / "model"
    shutil.copytree(tiny_model, folder)
    vocabulary = LlamaConfig.from_pretrained(tiny_model).vocab_size
    is_long = request.param == "longrope"
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4 * ORIGINAL if is_long else ORIGINAL,
        rope_parameters={"rope_theta": 100.0, **FORMS[request.param]},
        initializer_range=0.3,
    )
    torch.manual_seed(2)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def test_within_the_original_length_paths_equal_those_alone(model):
    """Also beside the longest that is permitted, and after it."""
    engine = EmbeddedEngine.load(str(model), batch_size=4)
    short = Request(prompt="ab", seeds=[1, 2])
    decoding = Decoding(temperature=1.0, max_new_tokens=8)
    [alone] = engine.complete([short], decoding)
    longest = Request(prompt="abcd" * 6, seeds=[3])
    for _ in range(2):
        [together, _] = engine.complete([short, longest], decoding)
        assert [one.token_ids for one in together] == [one.token_ids for one in alone]
        assert [one.logprob for one in together] == pytest.approx([one.logprob for one in alone])


def test_beyond_it_a_path_is_refused(model):
    """Where it would change the others; commands find it in the context of the folder, before any work."""
    engine = EmbeddedEngine.load(str(model), batch_size=4)
    long = Request(prompt="abcd" * 7, seeds=[3])
    with pytest.raises(
        BadInputError, match="28 tokens with max_new_tokens=8: beyond 32 tokens"
    ) as raised:
        engine.complete([long], Decoding(max_new_tokens=8))
    assert "\n" not in str(raised.value)
    assert declared_context(model) == ORIGINAL
    assert engine.room("ab") == ORIGINAL - 2


def test_the_context_of_other_forms_is_the_declared_one():
    """Also by the names of older configs, and with a form for each kind of layer."""
    old = {"type": "su", "long_factor": []}
    layers = {"full": {"rope_type": "dynamic", "factor": 2.0}, "sliding": {"rope_type": "default"}}
    for config, context in (
        (
            {
                "max_position_embeddings": 64,
                "rope_parameters": {"rope_type": "yarn", "factor": 4.0},
            },
            64,
        ),
        ({"max_position_embeddings": 64, "rope_scaling": None}, 64),
        (
            {
                "max_position_embeddings": 64,
                "rope_scaling": old,
                "original_max_position_embeddings": 8,
            },
            8,
        ),
        ({"max_position_embeddings": 64, "rope_parameters": layers}, 64),
        ({}, None),
    ):
        assert context_of(config) == context
