"""Texts of the embedded engine; `test_continuous_batch` has the tokens."""

import pathlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.embedded.embedded_engine import (
    EmbeddedEngine,
    fitting_batch,
    shared_engine,
)
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
        assert own.pool.held_bytes < 3 * 50 * 34 * 512


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


def test_without_a_number_as_many_paths_as_a_gibibyte_holds_are_decoded_together(tiny_model):
    """At least 64 and at most 512: keys and values of hidden_size numbers in each layer, over the whole context."""
    own = EmbeddedEngine.load(str(tiny_model), batch_size=None)
    assert own.batch_size == 512
    config = own.model.config
    per_token = 2 * config.num_hidden_layers * config.hidden_size * own.model.dtype.itemsize
    for wanted, expected in ((100, 100), (50, 64)):
        config.max_position_embeddings = (1 << 30) // (wanted * per_token)
        assert fitting_batch(own.model) == expected


def test_on_a_gpu_they_fit_into_half_of_what_is_free(tiny_model, monkeypatch):
    """There fewer than 64, too: memory that is not there ends the draw."""
    own = EmbeddedEngine.load(str(tiny_model), batch_size=None)
    config = own.model.config
    per_token = 2 * config.num_hidden_layers * config.hidden_size * own.model.dtype.itemsize
    path = per_token * config.max_position_embeddings
    on_gpu = SimpleNamespace(
        config=config, dtype=own.model.dtype, device=SimpleNamespace(type="cuda")
    )
    for room, expected in ((2000, 512), (240, 120), (14, 7), (0, 1)):
        free = room * path
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda free=free: (free, 80 << 30))
        assert fitting_batch(on_gpu) == expected
