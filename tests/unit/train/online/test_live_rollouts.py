"""Paths drawn from the policy in memory: the embedded engine's tokens, at the current weights."""

import pathlib
from typing import Any

import pytest
import torch
from peft import get_peft_model
from transformers import LlamaForCausalLM

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.params.train import LoraParams
from pipeline_lib.train.online.live_rollouts import LiveRollouts
from pipeline_lib.train.online.rollouts import DrawnPath, StepRequests
from pipeline_lib.train.weights.adapters import make_lora_config
from pipeline_lib.train.weights.policies import Policy, load_policy

PROMPTS = ["2,3=5\n"] * 4 + ["9,4=36\n"] * 4 + ["17,8,3=22\n"] * 4
LIMIT = 12
SEED = 3


@pytest.fixture
def policy(base: pathlib.Path) -> Policy:
    return load_policy(str(base))


def live() -> LiveRollouts:
    return LiveRollouts(decoding=Decoding(max_new_tokens=LIMIT), seed=SEED)


def drawn_from(
    model: Any, policy: Policy, *, step: int = 0, rollouts: LiveRollouts | None = None
) -> list[DrawnPath]:
    return (rollouts or live()).draw(PROMPTS, model=model, tokenizer=policy.tokenizer, step=step)


def tokens_of(paths: list[DrawnPath]) -> list[list[int]]:
    return [list(path.completion_ids) for path in paths]


def tokens_of_engine(folder: pathlib.Path, *, step: int) -> list[list[int]]:
    """Tokens of the embedded engine for a saved model, the same prompts and the same seeds."""
    engine = EmbeddedEngine.load(str(folder), batch_size=64)
    requests = StepRequests(seed=SEED).make(PROMPTS, step=step)
    groups = engine.complete(requests, Decoding(max_new_tokens=LIMIT))
    return [list(path.token_ids or ()) for group in groups for path in group]


def trained_logprobs(model: Any, path: DrawnPath) -> torch.Tensor:
    """Log-probabilities of a path's tokens under the model in training."""
    ids = torch.tensor([[*path.prompt_ids, *path.completion_ids]])
    logits = model.train()(input_ids=ids).logits[0, len(path.prompt_ids) - 1 : -1]
    return logits.log_softmax(-1).gather(-1, ids[0, len(path.prompt_ids) :, None])[:, 0]


def step_optimizer(model: Any) -> None:
    """One optimizer step on the trainable weights of ``model``."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.05)
    ids = torch.tensor([[5, 6, 7, 8]])
    model.train()(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def with_adapter(model: Any) -> Any:
    """``model`` under an adapter that changes its tokens."""
    adapted = get_peft_model(model, make_lora_config(LoraParams(enabled=True, rank=4)))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.add_(torch.randn(weight.shape, generator=generator))
    return adapted


def test_paths_are_those_of_the_engine(base: pathlib.Path, policy: Policy):
    """At steps 0 and 1, twelve paths each: the tokens that the engine draws with the same seeds."""
    drawn = [tokens_of(drawn_from(policy.model, policy, step=step)) for step in (0, 1)]
    assert drawn == [tokens_of_engine(base, step=step) for step in (0, 1)]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_paths_are_drawn_from_the_current_weights(lora, policy: Policy, tmp_path: pathlib.Path):
    """After an optimizer step the tokens are those of a copy that was saved after it, not before it."""
    model = with_adapter(policy.model) if lora else policy.model
    rollouts = live()
    before = tokens_of(drawn_from(model, policy, rollouts=rollouts))
    step_optimizer(model)
    after = tokens_of(drawn_from(model, policy, step=1, rollouts=rollouts))
    plain = model.merge_and_unload() if lora else model
    plain.save_pretrained(tmp_path)
    policy.tokenizer.save_pretrained(tmp_path)
    assert after == tokens_of_engine(tmp_path, step=1)
    assert before != tokens_of_engine(tmp_path, step=0)


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_logprobs_are_those_of_the_trainer(lora, policy: Policy):
    """In training mode, on whole paths, the model gives the engine's log-probability of every token."""
    model = with_adapter(policy.model) if lora else policy.model
    for path in drawn_from(model, policy):
        assert len(path.logprobs) == len(path.completion_ids)
        torch.testing.assert_close(
            torch.tensor(path.logprobs), trained_logprobs(model, path), atol=1e-4, rtol=0
        )


def test_only_truncated_paths_lack_an_end_token(policy: Policy):
    """Some of 96 short paths end by themselves; all others have the maximal number of tokens."""
    paths = [path for step in range(8) for path in drawn_from(policy.model, policy, step=step)]
    eos = policy.tokenizer.eos_token_id
    ended = [path.completion_ids[-1] == eos for path in paths]
    assert {True, False} == set(ended)
    assert all(eos not in path.completion_ids[:-1] for path in paths)
    assert {len(p.completion_ids) for p, end in zip(paths, ended, strict=True) if not end} == {
        LIMIT
    }
    assert not any(path.failed for path in paths)


def test_a_second_draw_at_one_step_gives_other_paths(policy: Policy):
    """It continues the seeds of the first; the same draws from a new source are identical."""
    first, second = live(), live()
    twice = [tokens_of(drawn_from(policy.model, policy, rollouts=first)) for _ in range(2)]
    assert twice[0] != twice[1]
    assert twice == [tokens_of(drawn_from(policy.model, policy, rollouts=second)) for _ in range(2)]


@pytest.mark.parametrize("training", [True, False])
def test_drawing_leaves_the_model_unchanged(training, policy: Policy):
    """Its mode, the gradient of its loss, and what is saved of its config."""
    model: LlamaForCausalLM = policy.model.train(training)
    model.gradient_checkpointing_enable()
    ids = torch.tensor([[5, 6, 7, 8]])

    def gradient() -> torch.Tensor:
        model.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        grad = model.get_input_embeddings().weight.grad
        assert grad is not None
        return grad.clone()

    config, before = model.config.to_json_string(), gradient()
    drawn_from(model, policy)
    assert model.training is training
    assert model.model.layers[0].training is training
    assert torch.equal(gradient(), before)
    assert model.config.to_json_string() == config
