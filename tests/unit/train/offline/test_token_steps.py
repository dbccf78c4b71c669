"""Steps by tokens, passes of similar lengths and their loss; labels of SFT rows."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.engines.tokens import encode_completion, encode_prompt
from pipeline_lib.train.bootstrap import make_tokenizer, make_word_tokenizer
from pipeline_lib.train.offline.bucketed_sft import (
    TokenRow,
    cut_passes,
    encode_rows,
    pad,
    padded_length,
    plan_steps,
    summed_loss,
)
from pipeline_lib.train.offline.sft import tokenize
from pipeline_lib.train.trainer_settings import IGNORED
from tests.unit.train.offline.test_matrix_optimizer import small_llama

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=30)


@given(LENGTHS, st.integers(1, 400), st.integers(40, 120), st.integers(0, 5))
def test_steps_hold_the_tokens_that_were_asked_for(lengths, tokens, step_tokens, seed):
    """No step is above its bound, all together reach the length, and without the last one they do not."""
    plan = plan_steps(lengths, tokens=tokens, step_tokens=step_tokens, seed=seed)
    held = [sum(lengths[place] for place in step) for step in plan.steps]
    assert max(held) <= step_tokens
    assert sum(held) == plan.tokens >= tokens
    assert sum(held[:-1]) < tokens


@given(LENGTHS, st.integers(0, 5))
def test_each_turn_takes_all_sequences(lengths, seed):
    """The first n places of the order are all n sequences, and so are the next n."""
    plan = plan_steps(lengths, tokens=3 * sum(lengths), step_tokens=40, seed=seed)
    order = [place for step in plan.steps for place in step]
    count = len(lengths)
    assert sorted(order[:count]) == sorted(order[count : 2 * count]) == list(range(count))


def test_the_seed_decides_the_order():
    """Two seeds, two orders; a longer training begins with the steps of a shorter one."""
    short, long = [
        plan_steps([3] * 50, tokens=tokens, step_tokens=9, seed=1).steps for tokens in (60, 300)
    ]
    assert long[: len(short)] == short
    assert plan_steps([3] * 50, tokens=60, step_tokens=9, seed=2).steps != short


@given(LENGTHS, st.integers(1, 200))
def test_passes_are_bounded_with_their_padding(lengths, pass_tokens):
    """Each sequence is in one pass; a pass of several has at most `pass_tokens` in its rectangle."""
    passes = cut_passes(lengths, pass_tokens=pass_tokens)
    assert sorted(place for some in passes for place in some) == list(range(len(lengths)))
    for some in passes:
        assert (
            len(some) == 1
            or len(some) * padded_length(max(lengths[i] for i in some)) <= pass_tokens
        )


def test_short_sequences_are_not_padded_to_long_ones():
    """One of 200 and eight of 30 in passes of 256: eight together take 8 x 32, and one alone 208."""
    passes = cut_passes([30] * 4 + [200] + [30] * 4, pass_tokens=256)
    assert [len(some) for some in passes] == [1, 8]


def row(length: int, loss_from: int) -> TokenRow:
    ids = np.random.default_rng(length).integers(2, 32, length).astype(np.int32)
    return TokenRow(ids_L=ids, loss_from=loss_from)


ROWS = [row(9, 4), row(3, 0), row(6, 5)]


def test_padding_has_no_label():
    """Of 3 x 9 columns, padded to 16, those behind a row and before its loss are ignored."""
    ids_BL, labels_BL = pad(ROWS, pad_id=0)
    assert ids_BL.shape == labels_BL.shape == (3, 16)
    assert (labels_BL != IGNORED).sum(1).tolist() == [5, 3, 1]
    assert ids_BL[1, 3:].tolist() == [0] * 13
    assert labels_BL[2, 5] == ids_BL[2, 5] == ROWS[2].ids_L[5]


def test_the_loss_is_the_sum_over_single_rows():
    """By the model's own mean loss of each row alone, times its labelled tokens that are predicted: 5, 2, 1."""
    model = small_llama()
    whole = summed_loss(model, *pad(ROWS, pad_id=0))
    single = 0.0
    for one, predicted in zip(ROWS, (5, 2, 1), strict=True):
        ids_BL, labels_BL = pad([one], pad_id=0)
        single += model(input_ids=ids_BL, labels=labels_BL).loss.item() * predicted
    assert whole.item() == pytest.approx(single, rel=1e-5)


def test_prefixes_have_no_gradient():
    """A token that occurs in prefixes alone, and is no candidate of the loss, moves nothing as a target."""
    model = small_llama()
    ids_BL, labels_BL = pad([row(9, 4)], pad_id=0)
    other_BL = labels_BL.clone()
    other_BL[:, :4] = IGNORED
    assert torch.equal(summed_loss(model, ids_BL, labels_BL), summed_loss(model, ids_BL, other_BL))


TOKENIZER = make_tokenizer(["2,3=5\n", "3+2=5"])


def test_only_completion_and_end_token_are_labelled():
    """2,3=5 and newline are six unlabelled tokens; 3+2=5 and the end token are six labels."""
    row = tokenize({"prompt": "2,3=5\n", "completion": "3+2=5"}, TOKENIZER)
    completion = [*TOKENIZER.encode("3+2=5"), TOKENIZER.eos_token_id]
    assert row["input_ids"] == [*TOKENIZER.encode("2,3=5\n"), *completion]
    assert row["labels"] == [-100] * 6 + completion
    assert len(completion) == 6


WORDS = make_word_tokenizer(["Q a1:5 # A A2 A1=9 A!2 !", "#1 #32"])


def test_words_are_tokens():
    """Between spaces and line feeds; numbered marks are one token, other words are unknown."""
    ids = WORDS.encode("Q a1:5\n#12\nA B")
    assert WORDS.convert_ids_to_tokens(ids) == ["Q", "a1:5", "#", "A", "<unk>"]
    assert WORDS.decode(ids[:2]) == "Q a1:5"
    assert len(WORDS) == 3 + 8


@pytest.mark.parametrize("tokenizer", [WORDS, TOKENIZER], ids=["words", "bytes"])
def test_rows_carry_weights(tokenizer):
    """The loss is on the completion, its end token, and the characters of the prompt with weight 1."""
    prompt, completion = "Q a1:5\n#1\nA A2 A1=9\n!\n", "A A2 A1=9 A!2"
    spans = [(prompt.index("A1"), prompt.index("\n!"), 1), (0, 1, 0)]
    whole, plain = encode_rows(
        [
            {"prompt": prompt, "completion": completion, "weights": spans},
            {"prompt": prompt, "completion": completion},
        ],
        tokenizer,
    )
    given, drawn = encode_prompt(tokenizer, prompt), encode_completion(tokenizer, completion)
    assert whole.ids_L.tolist() == plain.ids_L.tolist() == [*given, *drawn, tokenizer.eos_token_id]
    assert whole.loss_from == plain.loss_from == len(given)
    [(first, behind)] = whole.weighted
    assert tokenizer.decode(whole.ids_L[first:behind]).strip() == "A1=9"
    _, labels_BL = pad([whole, plain], pad_id=0)
    assert (labels_BL != IGNORED).sum(1).tolist() == [
        behind - first + len(drawn) + 1,
        len(drawn) + 1,
    ]
