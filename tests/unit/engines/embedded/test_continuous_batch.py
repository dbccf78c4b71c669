"""A sequence draws the same tokens in a changing batch as alone."""

import pathlib
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy.stats import chisquare
from transformers import AutoModelForCausalLM

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.continuous_batch import SequenceRequest
from pipeline_lib.records import FinishReason
from tests.unit.engines.embedded.decoded_sequences import (
    EOS,
    batch_of,
    generate_greedy,
    run_until_idle,
    sequence,
    tokens_of,
)

PROMPTS = [[2, 3], [2, 3, 4, 5, 2, 3, 4, 5, 2, 3], [5], [4, 4, 3, 2], [2, 3, 2, 3], [3] * 23]
LONGEST = 60


@pytest.fixture(scope="module")
def model(tiny_model: pathlib.Path) -> Any:
    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(tiny_model).eval()


@pytest.fixture(scope="module")
def greedy(model) -> list[list[int]]:
    """For every prompt the greedy tokens up to the end or the longest limit."""
    return [generate_greedy(model, sequence(0, prompt, limit=LONGEST)) for prompt in PROMPTS]


@pytest.mark.parametrize("max_sequences", [1, 3, 8, 64])
def test_greedy_sequences_equal_generate(model, max_sequences):
    """Forty sequences of six prompt lengths and limits from 1 to 60, at any batch size."""
    sequences = [sequence(i, PROMPTS[i % 6], limit=1 + (7 * i) % LONGEST) for i in range(40)]
    batch = batch_of(model, max_sequences=max_sequences)
    batch.add(sequences)
    expected = {one.id: generate_greedy(model, one) for one in sequences}
    assert tokens_of(run_until_idle(batch)) == expected


Schedule = st.lists(
    st.one_of(
        st.just("step"),
        st.lists(st.tuples(st.integers(0, len(PROMPTS) - 1), st.integers(1, LONGEST)), max_size=9),
        st.integers(0, 30),
    ),
    max_size=40,
)


@settings(max_examples=30)
@given(schedule=Schedule, max_sequences=st.integers(1, 12))
def test_any_schedule_gives_every_sequence_its_own_tokens(model, greedy, schedule, max_sequences):
    """For any order of add, step and cancel, a sequence gets its greedy tokens, or fewer if cancelled,
    and its end is reported once."""
    batch = batch_of(model, max_sequences=max_sequences)
    wanted: list[list[int]] = []
    cancelled: set[int] = set()
    drawn: dict[int, list[Any]] = {}

    def step() -> None:
        for one in batch.step():
            drawn.setdefault(one.id, []).append(one)

    for action in schedule:
        if action == "step":
            step()
        elif isinstance(action, int):
            batch.cancel(action)
            cancelled |= {action} & set(range(len(wanted)))
        else:
            sequences = [
                sequence(len(wanted) + i, PROMPTS[prompt], limit=limit)
                for i, (prompt, limit) in enumerate(action)
            ]
            wanted += [greedy[prompt][:limit] for prompt, limit in action]
            batch.add(sequences)
    while not batch.idle:
        step()
    for sequence_id, tokens in enumerate(wanted):
        path = drawn.get(sequence_id, [])
        got = [one.token for one in path]
        assert got == tokens[: len(got)]
        assert sequence_id in cancelled or got == tokens
        assert [bool(one.finished) for one in path[:-1]] == [False] * len(path[:-1])
        assert bool(path and path[-1].finished) == (len(got) == len(tokens))


def test_a_cancelled_sequence_draws_no_more_tokens(model):
    """Cancelled while running and while waiting; its slot goes to a waiting sequence."""
    batch = batch_of(model, max_sequences=2)
    batch.add([sequence(i, PROMPTS[1]) for i in range(4)])
    first = {one.id for one in batch.step()}
    assert first == {0, 1}
    batch.cancel(0)
    batch.cancel(2)
    assert {one.id for one in batch.step()} == {1, 3}
    batch.cancel(1)
    batch.cancel(3)
    batch.cancel(77)
    assert batch.step() == []
    assert batch.idle


def test_sequences_have_their_own_decoding(model):
    """Greedy, high-temperature and nucleus sequences in one batch draw the same tokens as apart."""
    sequences = [
        sequence(i, PROMPTS[i % 6], temperature=[0, 0.7, 1, 1.6][i % 4], top_p=[1, 0.6][i % 2])
        for i in range(24)
    ]
    together = batch_of(model, max_sequences=24)
    together.add(sequences)
    crowd = tokens_of(run_until_idle(together))
    for one in sequences:
        alone = batch_of(model, max_sequences=24)
        alone.add([one])
        assert tokens_of(run_until_idle(alone)) == {one.id: crowd[one.id]}


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.6, 1.0), (1.3, 0.8)])
def test_pairs_of_tokens_follow_the_model(model, temperature, top_p):
    """Pairs of first tokens over 6,000 seeds against probabilities from the model's logits: a
    chi-square test does not reject at 0.1 %; only pairs with expected counts above five are used."""
    prompt, count = PROMPTS[0], 6000
    decoding = Decoding(temperature=temperature, top_p=top_p, max_new_tokens=2)
    batch = batch_of(model, max_sequences=512)
    batch.add(
        [SequenceRequest(id=i, prompt_ids=prompt, seed=i, decoding=decoding) for i in range(count)]
    )
    paths = tokens_of(run_until_idle(batch)).values()
    first = _probabilities(model, prompt, temperature, top_p)
    expected = {
        (a, b): first[a] * p
        for a in range(6)
        if a != EOS
        for b, p in enumerate(_probabilities(model, [*prompt, a], temperature, top_p))
    } | {(EOS,): first[EOS]}
    seen = {pair: sum(tuple(path) == pair for path in paths) for pair in expected}
    assert sum(seen.values()) == count
    assert all(seen[pair] == 0 for pair, p in expected.items() if p == 0)
    often = [pair for pair, p in expected.items() if count * p > 5]
    rest = count - sum(seen[pair] for pair in often)
    observed = np.array([*(seen[pair] for pair in often), rest])
    probabilities = np.array([expected[pair] for pair in often])
    wanted = count * np.array([*probabilities, 1 - probabilities.sum()])
    usable = wanted > 1e-6
    assert chisquare(observed[usable], wanted[usable]).pvalue > 1e-3


def _probabilities(model: Any, prompt: list[int], temperature: float, top_p: float) -> np.ndarray:
    """Softmax over temperature; the nucleus of mass top_p, normalized."""
    with torch.inference_mode():
        logits = model(torch.tensor([prompt])).logits[0, -1].double().numpy() / temperature
    p = np.exp(logits - logits.max())
    p /= p.sum()
    order = np.argsort(-p)
    kept = order[: np.searchsorted(np.cumsum(p[order]), top_p) + 1] if top_p < 1 else order
    nucleus = np.zeros_like(p)
    nucleus[kept] = p[kept]
    return nucleus / nucleus.sum()


def test_log_probabilities_are_those_before_temperature(model):
    """Of sampled sequences that joined at different times, against one pass over each whole text."""
    batch = batch_of(model, max_sequences=8)
    batch.add([sequence(i, PROMPTS[i % 6], limit=30, temperature=1.5) for i in range(20)])
    for sequence_id, path in run_until_idle(batch).items():
        text = [*PROMPTS[sequence_id % 6], *(one.token for one in path)]
        with torch.inference_mode():
            logprobs = model(torch.tensor([text])).logits[0].log_softmax(-1)
        start = len(PROMPTS[sequence_id % 6]) - 1
        wanted = [logprobs[start + i, one.token].item() for i, one in enumerate(path)]
        assert [one.logprob for one in path] == pytest.approx(wanted, abs=1e-4)


def test_finish_reasons_of_end_token_and_limit(model):
    """STOP comes with the end token alone, also at the limit; LENGTH at the limit alone."""
    batch = batch_of(model, max_sequences=16)
    batch.add([sequence(i, PROMPTS[i % 6], limit=1 + i % 9, temperature=1) for i in range(200)])
    reasons = set()
    for sequence_id, path in run_until_idle(batch).items():
        limit = 1 + sequence_id % 9
        ended = path[-1].token == EOS
        assert all(one.token != EOS and one.finished is None for one in path[:-1])
        assert path[-1].finished is (FinishReason.STOP if ended else FinishReason.LENGTH)
        assert ended or len(path) == limit
        reasons.add((path[-1].finished, len(path) == limit))
    assert len(reasons) == 3


@pytest.mark.parametrize(("prompt", "limit"), [([], 5), ([2], 0)])
def test_an_empty_sequence_is_refused(model, prompt, limit):
    """No prompt token, or a limit of 0."""
    with pytest.raises(ValueError, match="sequence 3"):
        batch_of(model, max_sequences=4).add([sequence(3, prompt, limit=limit)])
