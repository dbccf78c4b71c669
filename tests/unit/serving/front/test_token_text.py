"""Text that is shown as it grows is, put together, exactly the decoded whole."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from pipeline_lib.serving.front.token_text import (
    IncrementalDetokenizer,
    StopStringFilter,
    TokenDecoder,
)
from pipeline_lib.serving.stop_strings import find_stop
from pipeline_lib.training.bootstrap import make_tokenizer

EURO = "€".encode()


def _byte_level() -> PreTrainedTokenizerFast:
    """Byte-pair encoding on bytes, as the bootstrap's policies have it."""
    return make_tokenizer(["12 + 3 = 15\n", "Größe: 7 km, 日本語 🙂\n"] * 3)


def _sentencepiece() -> PreTrainedTokenizerFast:
    """Pieces that begin with a space, which the first one loses; other bytes one by one."""
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
def test_pieces_make_the_whole(kind, data):
    """For any tokens: invalid bytes, split characters and special tokens included."""
    tokens = data.draw(st.lists(st.integers(0, len(TOKENIZERS[kind]) - 1), max_size=40))
    assert "".join(_pieces(DECODERS[kind], tokens)) == DECODERS[kind].decode(tokens)


@pytest.mark.parametrize("kind", list(TOKENIZERS))
@given(data=st.data())
def test_what_is_shown_is_never_taken_back(kind, data):
    """Whatever follows, what was shown so far begins the text: no half of a character is shown."""
    tokens = data.draw(st.lists(st.integers(0, len(TOKENIZERS[kind]) - 1), max_size=20))
    more = data.draw(st.lists(st.integers(0, len(TOKENIZERS[kind]) - 1), max_size=5))
    shown = "".join(_pieces(DECODERS[kind], tokens)[:-1])
    assert DECODERS[kind].decode(tokens + more).startswith(shown)


def test_a_character_comes_whole():
    """The three bytes of a euro sign, one token each, are shown with the last of them."""
    tokens = TOKENIZERS["byte-level"].encode("a€")
    assert len(tokens) == 4
    assert _pieces(DECODERS["byte-level"], tokens) == ["a", "", "", "€", ""]


def test_a_run_of_bytes_is_shown_when_it_has_ended():
    """One wrong byte would make the whole run unreadable, so nothing of it is shown before."""
    vocabulary = TOKENIZERS["sentencepiece"].get_vocab()
    tokens = [vocabulary[f"<0x{byte:02X}>"] for byte in EURO]
    assert _pieces(DECODERS["sentencepiece"], [*tokens, vocabulary["s"]]) == ["", "", "", "€s", ""]
    assert _pieces(DECODERS["sentencepiece"], tokens) == ["", "", "", "€"]


def test_half_a_character_is_shown_only_at_the_end():
    """Cut after two of three bytes, it is a replacement character, as in the decoded whole."""
    tokens = TOKENIZERS["byte-level"].encode("a€")[:-1]
    assert _pieces(DECODERS["byte-level"], tokens) == ["a", "", "", "\N{REPLACEMENT CHARACTER}"]


def test_the_space_before_a_later_piece_stays():
    """The decoder strips the space of the first piece only; so do the pieces."""
    vocabulary = TOKENIZERS["sentencepiece"].get_vocab()
    tokens = [vocabulary[piece] for piece in ("\u2581the", "\u2581cat", "s", "</s>", "\u2581the")]
    assert _pieces(DECODERS["sentencepiece"], tokens) == ["the", " cat", "s", "", " the", ""]


def _watched(stops: Sequence[str], chunks: Sequence[str]) -> tuple[list[str], StopStringFilter]:
    watch = StopStringFilter(stops=stops)
    shown = []
    for chunk in chunks:
        shown.append(watch.push(chunk))
        if watch.hit:
            break
    return [*shown, watch.finish()], watch


WORDS = st.text("ab\n", max_size=4)


@given(stop=WORDS.filter(bool), chunks=st.lists(WORDS, max_size=12))
def test_a_stop_string_cuts_before_its_first_place(stop, chunks):
    """However the text is cut into chunks, what is shown is the text before the stop string."""
    shown, watch = _watched([stop], chunks)
    text = "".join(chunks)
    assert "".join(shown) == text[: find_stop(text, [stop])]
    assert watch.hit == (stop in text)


@given(stops=st.lists(WORDS.filter(bool), max_size=3), chunks=st.lists(WORDS, max_size=12))
def test_no_part_of_a_stop_string_is_shown_early(stops, chunks):
    """With several, all that was ever shown begins the text before the one that was met."""
    shown, watch = _watched(stops, chunks)
    final = "".join(shown)
    text = "".join(chunks)
    assert text.startswith(final)
    assert watch.hit == any(stop in text for stop in stops)
    if watch.hit:
        assert any(text.startswith(stop, len(final)) for stop in stops)
        assert not any(stop in final for stop in stops)
    else:
        assert final == text
