"""The embedded engine draws from the model's distribution, whatever else is in the batch."""

import pathlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine, shared_engine
from pipeline_lib.errors import BadInputError
from pipeline_lib.records import FinishReason

GREEDY = Decoding(temperature=0, max_new_tokens=20)
PROMPTS = ["ab", "abcdabcdab", "d", "ccba", "abab"]


@pytest.fixture(scope="module")
def engine(tiny_model: pathlib.Path) -> EmbeddedEngine:
    return EmbeddedEngine.load(str(tiny_model), batch_size=4)


def test_greedy_equals_generate(engine):
    """For prompts of five lengths in batches of four, greedy text is that of model.generate."""
    completions = engine.complete([Request(prompt=p, seeds=[0]) for p in PROMPTS], GREEDY)
    for prompt, [completion] in zip(PROMPTS, completions, strict=True):
        ids = torch.tensor([engine.tokenizer.encode(prompt, add_special_tokens=False)])
        reference = engine.model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=20
        )[0, ids.shape[1] :]
        expected = engine.tokenizer.decode(reference, skip_special_tokens=True)
        assert completion.text == expected
        assert completion.completion_tokens == len(reference)
        assert completion.prompt_tokens == len(prompt)


def test_a_path_does_not_depend_on_the_batch(engine):
    """The completion of a seed is the same alone, in a big batch, and in another order."""
    sampled = Decoding(temperature=1.0, max_new_tokens=24)
    seeds = [11, 12, 13]
    alone = [engine.complete([Request(prompt="ab", seeds=[s])], sampled)[0][0] for s in seeds]
    crowd = [Request(prompt=p, seeds=range(5)) for p in PROMPTS]
    together = engine.complete([*crowd, Request(prompt="ab", seeds=seeds[::-1])], sampled)[-1]
    assert [c.text for c in together[::-1]] == [c.text for c in alone]
    assert [c.logprob for c in together[::-1]] == pytest.approx([c.logprob for c in alone])


def test_first_token_frequencies_match_the_model(engine):
    """Over 4,000 seeds each token's share is within four standard errors of its probability."""
    n = 4000
    request = Request(prompt="ab", seeds=range(n))
    [completions] = engine.complete([request], Decoding(temperature=0.7, max_new_tokens=1))
    ids = torch.tensor([engine.tokenizer.encode("ab", add_special_tokens=False)])
    with torch.inference_mode():
        probs = (engine.model(ids).logits[0, -1].double() / 0.7).softmax(-1).numpy()
    texts = [c.text for c in completions]
    for token, p in zip("abcd", probs[2:], strict=True):
        share = texts.count(token) / n
        assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / n) + 1e-9


def test_finish_reasons_of_end_token_and_limit(engine):
    """A path with the end token has STOP; one that was truncated has LENGTH at the limit."""
    [completions] = engine.complete(
        [Request(prompt="ab", seeds=range(40))], Decoding(max_new_tokens=6)
    )
    for completion in completions:
        ended = completion.finish_reason is FinishReason.STOP
        assert ended or completion.completion_tokens == 6
    assert {c.finish_reason for c in completions} == {FinishReason.STOP, FinishReason.LENGTH}


def test_logprob_is_the_sum_over_tokens(engine):
    """The reported log-probability equals a teacher-forced pass over prompt and completion."""
    [completions] = engine.complete(
        [Request(prompt="dcb", seeds=range(40))], Decoding(max_new_tokens=9)
    )
    # With a special token inside the text, the tokens cannot be recovered from the text.
    plain = [c for c in completions if c.finish_reason is FinishReason.LENGTH and len(c.text) == 9]
    assert plain
    prompt = engine.tokenizer.encode("dcb", add_special_tokens=False)
    for completion in plain:
        tokens = engine.tokenizer.encode(completion.text, add_special_tokens=False)
        with torch.inference_mode():
            logits = engine.model(torch.tensor([prompt + tokens])).logits[0].log_softmax(-1)
        places = range(len(prompt) - 1, len(prompt) + len(tokens) - 1)
        total = sum(
            logits[place, token].item() for place, token in zip(places, tokens, strict=True)
        )
        assert completion.logprob == pytest.approx(total, abs=1e-4)


def test_a_completion_ends_before_a_stop_string(engine):
    """Each text is the one without stop strings up to the first of them; the last drawn token
    completes it."""
    request = Request(prompt="ab", seeds=range(60))
    free = Decoding(max_new_tokens=40)
    stops = ("cd", "ba")
    [whole] = engine.complete([request], free)
    [cut] = engine.complete([request], replace(free, stop=stops))
    assert any(stop in one.text for one in whole for stop in stops)
    for one, other in zip(whole, cut, strict=True):
        places = [one.text.find(stop) for stop in stops if stop in one.text]
        assert other.text == one.text[: min(places, default=None)]
        assert other.token_ids == one.token_ids[: other.completion_tokens]
        if places:
            assert other.finish_reason is FinishReason.STOP
            kept = engine.tokenizer.decode(other.token_ids, skip_special_tokens=True)
            assert kept[min(places) :] in stops
        else:
            assert other.finish_reason is one.finish_reason


def test_tokens_and_their_log_probabilities_are_returned(engine):
    """One log-probability per token, with the path's as their sum; the tokens decode to the text."""
    [completions] = engine.complete([Request(prompt="dcb", seeds=range(20))], Decoding())
    for one in completions:
        assert len(one.token_ids) == len(one.token_logprobs) == one.completion_tokens
        assert one.logprob == pytest.approx(sum(one.token_logprobs))
        assert engine.tokenizer.decode(one.token_ids, skip_special_tokens=True) == one.text
        assert one.latency_s > 0


def test_a_repeated_prompt_counts_as_cached(engine):
    """Of two requests with one prompt, the second is fully cached; each counts its prompt once."""
    requests = [Request(prompt=p, seeds=range(3)) for p in ("abcd", "ab", "abcd")]
    completions = engine.complete(requests, GREEDY)
    assert [{one.cached_tokens for one in drawn} for drawn in completions] == [{0}, {0}, {4}]


def test_empty_requests_give_no_completions(engine):
    """No requests, and a request for no completions."""
    assert engine.complete([], GREEDY) == []
    assert engine.complete([Request(prompt="ab", seeds=[])], GREEDY) == [[]]


def test_a_prompt_without_tokens_is_bad_input(engine):
    """It has no logits to draw from."""
    with pytest.raises(BadInputError, match="no token"):
        engine.complete([Request(prompt="", seeds=[1])], GREEDY)


def test_memory_does_not_grow_with_the_number_of_paths(tiny_model):
    """Of 3,000 paths in a batch of 50, of at most 10 + 24 positions with 512 bytes each (keys and
    values of 32 channels in 2 layers), at most three batches of the longest are held at any time."""
    own = EmbeddedEngine.load(str(tiny_model), batch_size=50)
    for _ in range(3):
        own.complete(
            [Request(prompt=p, seeds=range(200)) for p in PROMPTS], Decoding(max_new_tokens=24)
        )
        assert own.held_bytes < 3 * 50 * 34 * 512


def test_missing_model_is_bad_input(tmp_path):
    """The message is one line that names the folder."""
    with pytest.raises(BadInputError, match="nothing-here"):
        EmbeddedEngine.load(str(tmp_path / "nothing-here"), batch_size=4)


def test_threads_share_one_engine(tiny_model):
    """Four threads that load at once get the same, complete engine."""
    with ThreadPoolExecutor(4) as pool:
        engines = list(pool.map(lambda _: shared_engine(str(tiny_model), batch_size=4), range(4)))
    assert all(engine is engines[0] for engine in engines)
    assert engines[0].complete([Request(prompt="ab", seeds=[0])], GREEDY)[0][0].completion_tokens
