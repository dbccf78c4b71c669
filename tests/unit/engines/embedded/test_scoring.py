"""Self-certainty against a hand-worked number, and against one text at a time."""

import math

import pytest
import torch

from pipeline_lib.engines.chat_model import Decoding, Request, ScoredText
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.embedded.scoring import PolicyScorer, self_certainty


@pytest.fixture(scope="module")
def engine(tiny_model):
    return EmbeddedEngine.load(str(tiny_model), batch_size=4)


@pytest.fixture(scope="module")
def scorer(engine):
    return PolicyScorer(model=engine.model, tokenizer=engine.tokenizer)


def test_by_hand():
    """p = (0.8, 0.2): -(ln 1.6 + ln 0.4) / 2 = 0.2231; a uniform distribution has 0."""
    logits = torch.tensor([[0.8, 0.2], [0.5, 0.5]]).log() + 3
    expected = -(math.log(1.6) + math.log(0.4)) / 2
    assert self_certainty(logits).tolist() == pytest.approx([expected, 0], abs=1e-6)


def test_equals_the_divergence_from_uniform(scorer, engine):
    """KL(U || p) by torch, at each token of a text, its end token included."""
    text = ScoredText(prompt="abc", text="dca", ended=True)
    [found] = scorer.score([text])
    ids = [*engine.tokenizer.encode("abcdca", add_special_tokens=False), 1]
    with torch.inference_mode():
        logprobs = engine.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    uniform = torch.full_like(logprobs[0], 1 / logprobs.shape[-1])
    each = [
        torch.nn.functional.kl_div(logprobs[place], uniform, reduction="sum").item()
        for place in range(2, 6)
    ]
    assert found.self_certainty == pytest.approx(sum(each) / 4, abs=1e-5)
    assert found.read_tokens == 7


def test_a_score_does_not_depend_on_the_batch(scorer):
    """Texts of other lengths in the same pass do not change a score; the order is kept."""
    texts = [
        ScoredText(prompt="ab" * n, text="cd" * (5 - n) + "a", ended=n % 2 == 0) for n in (1, 4, 2)
    ]
    together = scorer.score(texts)
    alone = [scorer.score([text])[0] for text in texts]
    assert [one.read_tokens for one in together] == [one.read_tokens for one in alone]
    assert [one.self_certainty for one in together] == pytest.approx(
        [one.self_certainty for one in alone], abs=1e-5
    )


def test_an_empty_text_without_an_end_has_certainty_0(scorer):
    """It has no token to score."""
    [found] = scorer.score([ScoredText(prompt="ab", text="", ended=False)])
    assert (found.self_certainty, found.read_tokens) == (0, 2)


def test_a_completion_names_the_stop_string_that_ended_it(engine):
    """None if it ended by the end token or the limit."""
    [drawn] = engine.complete(
        [Request(prompt="ab", seeds=range(60))], Decoding(max_new_tokens=12, stop=("cd", "ba"))
    )
    [free] = engine.complete([Request(prompt="ab", seeds=range(60))], Decoding(max_new_tokens=12))
    assert {one.stopped_by for one in drawn} == {"cd", "ba", None}
    for one, whole in zip(drawn, free, strict=True):
        if one.stopped_by is None:
            assert one.text == whole.text
        else:
            assert whole.text.startswith(one.text + one.stopped_by)
