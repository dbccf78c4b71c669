"""Incrementally emitted text adds up to exactly the decoded whole."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from pipeline_lib.engines.embedded.generation import (
    IncrementalDetokenizer,
    StopStringFilter,
    TokenDecoder,
)
from pipeline_lib.train.bootstrap import make_tokenizer

EURO = "€".encode()


def _byte_level() -> PreTrainedTokenizerFast:
    """Byte-level BPE, as in the bootstrap's policies."""
    return make_tokenizer(["12 + 3 = 15\n", "Größe: 7 km, 日本語 🙂\n"] * 3)


def _sentencepiece() -> PreTrainedTokenizerFast:
    """Pieces that begin with a space, which the decoder strips from the first; byte fallback."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["\u2581", "\u2581the", "\u2581cat", "s", "1", "2", "\u2581=", "ü", "\ufffd"]
    inner = Tokenizer(
        models.BPE({piece: i for i, piece in enumerate(pieces)}, [], unk_token="<unk>")
    )
    inner.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


TOKENIZERS = {"byte-level": _byte_level(), "sentencepiece": _sentencepiece()}
DECODERS = {name: TokenDecoder.of(tokenizer) for name, tokenizer in TOKENIZERS.items()}


def _pieces(decoder: TokenDecoder, tokens: Sequence[int]) -> list[str]:
    text = IncrementalDetokenizer(decoder=decoder)
    return [*(text.push(token) for token in tokens), text.finish()]


@pytest.mark.parametrize("kind", list(TOKENIZERS))
@given(data=st.data())
def test_pieces_add_up_to_the_decoded_text(kind, data):
    """For any tokens: invalid bytes, split characters and special tokens included."""
    tokens = data.draw(st.lists(st.integers(0, len(TOKENIZERS[kind]) - 1), max_size=40))
    assert "".join(_pieces(DECODERS[kind], tokens)) == DECODERS[kind].decode(tokens)


@pytest.mark.parametrize("kind", list(TOKENIZERS))
@given(data=st.data())
def test_emitted_text_is_final(kind, data):
    """After any token, the emitted text is a prefix of the final text; no partial character is emitted."""
    tokens = data.draw(st.lists(st.integers(0, len(TOKENIZERS[kind]) - 1), max_size=20))
    more = data.draw(st.lists(st.integers(0, len(TOKENIZERS[kind]) - 1), max_size=5))
    shown = "".join(_pieces(DECODERS[kind], tokens)[:-1])
    assert DECODERS[kind].decode(tokens + more).startswith(shown)


def test_a_character_is_emitted_whole():
    """The three bytes of a euro sign, one token each, are emitted with the last of them."""
    tokens = TOKENIZERS["byte-level"].encode("a€")
    assert len(tokens) == 4
    assert _pieces(DECODERS["byte-level"], tokens) == ["a", "", "", "€", ""]


def test_a_run_of_bytes_is_emitted_at_its_end():
    """One wrong byte makes the whole run undecodable, so nothing of it is emitted before."""
    vocabulary = TOKENIZERS["sentencepiece"].get_vocab()
    tokens = [vocabulary[f"<0x{byte:02X}>"] for byte in EURO]
    assert _pieces(DECODERS["sentencepiece"], [*tokens, vocabulary["s"]]) == ["", "", "", "€s", ""]
    assert _pieces(DECODERS["sentencepiece"], tokens) == ["", "", "", "€"]


def test_a_partial_character_is_emitted_only_at_the_end():
    """Truncated after two of three bytes, it is a replacement character, as in the decoded text."""
    tokens = TOKENIZERS["byte-level"].encode("a€")[:-1]
    assert _pieces(DECODERS["byte-level"], tokens) == ["a", "", "", "\N{REPLACEMENT CHARACTER}"]


def test_the_space_before_a_later_piece_stays():
    """The decoder strips the space of the first piece only; so does incremental decoding."""
    vocabulary = TOKENIZERS["sentencepiece"].get_vocab()
    tokens = [vocabulary[piece] for piece in ("\u2581the", "\u2581cat", "s", "</s>", "\u2581the")]
    assert _pieces(DECODERS["sentencepiece"], tokens) == ["the", " cat", "s", "", " the", ""]


def _watched(stops: Sequence[str], chunks: Sequence[str]) -> tuple[list[str], StopStringFilter]:
    watch = StopStringFilter(stops=stops)
    shown = []
    for chunk in chunks:
        shown.append(watch.push(chunk))
        if watch.stopped_by is not None:
            break
    return [*shown, watch.finish()], watch


WORDS = st.text("ab\n", max_size=4)


@given(stop=WORDS.filter(bool), chunks=st.lists(WORDS, max_size=12))
def test_text_ends_before_the_first_stop_string(stop, chunks):
    """For any split into chunks, the emitted text is the text before the stop string."""
    shown, watch = _watched([stop], chunks)
    text = "".join(chunks)
    assert "".join(shown) == text.partition(stop)[0]
    assert (watch.stopped_by is not None) == (stop in text)


@given(stops=st.lists(WORDS.filter(bool), max_size=3), chunks=st.lists(WORDS, max_size=12))
def test_no_part_of_a_stop_string_is_emitted(stops, chunks):
    """With several stop strings, the emitted text is always a prefix of the text before the first, which is named."""
    shown, watch = _watched(stops, chunks)
    final = "".join(shown)
    text = "".join(chunks)
    assert text.startswith(final)
    assert (watch.stopped_by is not None) == any(stop in text for stop in stops)
    if watch.stopped_by is not None:
        assert text.startswith(watch.stopped_by, len(final))
        assert not any(stop in final for stop in stops)
    else:
        assert final == text
