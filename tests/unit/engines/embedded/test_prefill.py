"""Equal prompts, and shared prefixes, are computed once."""

import pathlib
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.unit.engines.embedded.decoded_sequences import (
    batch_of,
    generate_greedy,
    run_until_idle,
    sequence,
    tokens_of,
)

PREFIX = [2, 3, 4, 5] * 5
"""Long enough to be computed separately."""


@pytest.fixture(scope="module")
def model(tiny_model: pathlib.Path) -> Any:
    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(tiny_model).eval()


@pytest.fixture
def positions(model: Any) -> Any:
    """Positions of each forward pass, padding included."""
    seen: list[int] = []
    batch_of(model, max_sequences=1)
    hook = model.model.embed_tokens.register_forward_hook(
        lambda _module, given, _output: seen.append(given[0].numel())
    )
    yield seen
    hook.remove()


@pytest.mark.parametrize("max_sequences", [1, 4, 64])
def test_a_prompt_is_computed_once_for_its_paths(model, positions, max_sequences):
    """Ten paths of one token for a prompt of seven: seven positions in all forward passes."""
    warm = batch_of(model, max_sequences=1)
    warm.add([sequence(0, [2], limit=1)])
    run_until_idle(warm)
    positions.clear()
    batch = batch_of(model, max_sequences=max_sequences)
    batch.add([sequence(i, [2, 3, 4, 5, 4, 3, 2], limit=1) for i in range(10)])
    drawn = run_until_idle(batch)
    assert positions == [7]
    assert [path[0].cached_tokens for path in drawn.values()] == [0] + [7] * 9


def test_a_common_prefix_is_computed_once(model, positions):
    """Prompts of 20 + 1, 2 and 3 tokens: 20 positions for all, then 3 x 3 with padding. The prefix
    counts as computed by the first prompt, the longest."""
    warm = batch_of(model, max_sequences=1)
    warm.add([sequence(0, [2], limit=1)])
    run_until_idle(warm)
    positions.clear()
    batch = batch_of(model, max_sequences=8)
    batch.add([sequence(i, [*PREFIX, *[5, 3, 2][: 1 + i]], limit=1) for i in range(3)])
    drawn = run_until_idle(batch)
    assert positions == [20, 9]
    assert {i: path[0].cached_tokens for i, path in drawn.items()} == {0: 20, 1: 20, 2: 0}


def test_sequences_from_a_common_prefix_equal_generate(model):
    """Greedy, in batches that need several sub-batches; one prompt is itself a prefix of others."""
    tails = [[5], [3, 3], [4, 2, 5], [2] * 9, [3, 4, 4, 4, 2]]
    prompts = [PREFIX, *([*PREFIX, *tail] for tail in tails)]
    sequences = [sequence(i, prompts[i % 6], limit=10 + i) for i in range(24)]
    batch = batch_of(model, max_sequences=5)
    batch.add(sequences)
    assert tokens_of(run_until_idle(batch)) == {
        one.id: generate_greedy(model, one) for one in sequences
    }


def test_kept_states_do_not_outlive_the_weights(tiny_model):
    """The weights change between two uses: the second draws from the changed model."""
    own = AutoModelForCausalLM.from_pretrained(tiny_model).eval()
    batch = batch_of(own, max_sequences=4)
    sequences = [sequence(i, [*PREFIX, 2 + i % 4, 3], limit=20) for i in range(8)]
    batch.add(sequences)
    before = tokens_of(run_until_idle(batch))
    with torch.no_grad():
        own.model.embed_tokens.weight.mul_(-1.7)
    batch.add(sequences)
    after = tokens_of(run_until_idle(batch))
    assert after == {one.id: generate_greedy(own, one) for one in sequences}
    assert after != before
