"""Texts to token ids and back: what begins a prompt, what follows it, and which date a template prints."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils import chat_template_utils

from pipeline_lib.engines.pretrained import chat_format_of
from pipeline_lib.engines.tokens import (
    COMPACT_TEMPLATE,
    decode_completion,
    encode_completion,
    encode_prompt,
    encode_text,
    render_chat,
)
from tests.unit.tiny_models import BOS, TINY_MODELS, TinyModel, make_tokenizer

MESSAGES = [{"role": "user", "content": "3 + 4"}]
TOKENIZERS = {name: make_tokenizer(one) for name, one in TINY_MODELS.items()}
SPACED = ["SentencePiece, first", "SentencePiece, prepend"]


def test_a_prompt_without_a_template_begins_as_the_tokenizer_begins_a_text():
    """One token where the tokenizer adds one, none where it adds none; what it adds behind a text is no prompt."""
    bos = TOKENIZERS["bos"].bos_token_id
    plain = encode_prompt(TOKENIZERS["plain"], "3,4=7\n")
    assert bos not in plain
    assert encode_prompt(TOKENIZERS["bos"], "3,4=7\n") == [bos, *plain]
    assert encode_prompt(TOKENIZERS["bos and eos around a text"], "3,4=7\n") == [bos, *plain]


def test_the_begin_token_is_there_once():
    """A prompt that spells it gets no second one."""
    tokenizer = TOKENIZERS["bos"]
    assert encode_prompt(tokenizer, f"{BOS}3,4") == encode_prompt(tokenizer, "3,4")


@pytest.mark.parametrize("name", [name for name, one in TINY_MODELS.items() if one.template])
def test_a_rendered_prompt_has_the_ids_of_transformers_own_template(name, monkeypatch):
    """The template alone decides, whether the tokenizer adds a begin token to a text or not."""
    tokenizer = TOKENIZERS[name]
    rendered = render_chat(tokenizer, MESSAGES)
    text = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=False)
    if "strftime_now" not in tokenizer.chat_template:
        assert rendered == text
    direct = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    assert encode_prompt(tokenizer, rendered) == direct
    assert direct.count(tokenizer.bos_token_id) == tokenizer.chat_template.count("bos_token")


def test_the_compact_template_writes_no_special_token():
    """A model that was made a chat model for compact prompts begins them as before."""
    tokenizer = make_tokenizer(TinyModel(adds_bos=True, template=COMPACT_TEMPLATE))
    assert encode_prompt(tokenizer, "3,4\n") == encode_prompt(TOKENIZERS["bos"], "3,4\n")


@given(text=st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12))
@pytest.mark.parametrize("name", ["plain", "bos", *SPACED])
def test_a_completion_is_its_own_text_again(name, text):
    """Encoding and decoding restore a completion, leading spaces included, and add none."""
    tokenizer = TOKENIZERS[name]
    ids = encode_completion(tokenizer, text)
    assert decode_completion(tokenizer, ids) == text.replace("▁", " " if name in SPACED else "▁")
    assert not {tokenizer.bos_token_id, tokenizer.eos_token_id} & {*ids}


@pytest.mark.parametrize("name", SPACED)
def test_a_completion_begins_without_the_space_of_a_first_word(name):
    """SentencePiece would make "7" the piece of " 7", which a model that writes "=7" never draws."""
    tokenizer = TOKENIZERS[name]
    assert tokenizer.convert_ids_to_tokens(encode_completion(tokenizer, "7")) == ["7"]
    assert tokenizer.convert_ids_to_tokens(encode_completion(tokenizer, " 7")) == ["▁7"]
    own = encode_text(tokenizer, "7", add_special_tokens=False)
    assert tokenizer.convert_ids_to_tokens(own) == ["▁7"]
    assert decode_completion(tokenizer, own) == " 7"


def test_a_template_prints_one_date(monkeypatch):
    """A run that goes on after midnight draws with the same prompts, and their digest names the date."""

    class Later(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2031, 5, 6, tzinfo=tz)

    tokenizer = TOKENIZERS["dated template"]
    before = render_chat(tokenizer, MESSAGES)
    monkeypatch.setattr(chat_template_utils, "datetime", Later)
    text = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=False)
    assert "[today 06 May 2031]" in text
    assert before == render_chat(tokenizer, MESSAGES)
    assert before.startswith("[today 01 Jan 2025]")


def test_the_digest_of_a_template_without_a_clock_is_that_of_its_source():
    """Digests of recorded paths stay as they are; a dated template has another one than its source."""
    digests = {
        name: chat_format_of(one).digest for name, one in TOKENIZERS.items() if one.chat_template
    }
    assert digests["biases"] == digests["template with bos, tokenizer too"]
    assert digests["dated template"] != digests["biases"]
