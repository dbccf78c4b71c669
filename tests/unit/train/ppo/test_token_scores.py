"""Scores of tokens do not depend on padding or on other paths in the batch; the critic's head."""

import pathlib

import pytest
import torch
from peft import get_peft_model
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from pipeline_lib.params.train import LoraParams
from pipeline_lib.train.online.draw_trainer import keep_reference
from pipeline_lib.train.ppo.path_batch import TokenPath, collate
from pipeline_lib.train.ppo.token_scores import FILE_NAME, ValueHead, compute_logprobs, score_tokens
from pipeline_lib.train.weights.adapters import make_lora_config
from pipeline_lib.train.weights.policies import load_policy

PATHS = [
    TokenPath(prompt_ids=[5, 6, 7, 8], completion_ids=[9, 10], outcome=0.0),
    TokenPath(prompt_ids=[5], completion_ids=[11, 12, 13, 14], outcome=0.0),
    TokenPath(prompt_ids=[8, 7], completion_ids=[6], outcome=0.0),
]


@pytest.fixture(scope="module")
def model(base: pathlib.Path):
    return AutoModelForCausalLM.from_pretrained(base).eval()


@torch.no_grad()
def test_scores_of_a_padded_batch_equal_those_of_single_paths(model):
    """Three paths of different lengths; the reference is one pass per token over its prefix."""
    head = ValueHead(model.config.hidden_size)
    torch.nn.init.ones_(head.out.weight)
    batch = collate(PATHS, pad_id=0, device=model.device)
    found = score_tokens(model, head, batch, body_share=0.0, entropy_gradient=False)
    plain_BT = compute_logprobs(model, batch)
    for row, path in enumerate(PATHS):
        for place, token in enumerate(path.completion_ids):
            before = torch.tensor([[*path.prompt_ids, *path.completion_ids[:place]]])
            output = model(before, output_hidden_states=True)
            log_probs_V = output.logits[0, -1].log_softmax(-1)
            value = head(output.hidden_states[-1][0, -1], body_share=0.0)
            entropy = torch.distributions.Categorical(logits=log_probs_V).entropy()
            for scored, expected in [
                (found.logprobs_BT, log_probs_V[token]),
                (plain_BT, log_probs_V[token]),
                (found.entropies_BT, entropy),
                (found.values_BT, value),
            ]:
                torch.testing.assert_close(scored[row, place], expected, atol=1e-5, rtol=0)


class LargestTensor(TorchDispatchMode):
    """Elements of the largest tensor that is made in the block."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(one, torch.Tensor):
                self.elements = max(self.elements, one.numel())
        return made


def test_a_large_vocabulary_is_scored_in_parts():
    """20 M logits, of which no more than 2^24 exist at once; scores and gradients equal those of the whole to 1e-6."""
    config = LlamaConfig(
        vocab_size=50_000,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=500,
    )
    torch.manual_seed(1)
    model = LlamaForCausalLM(config)
    head = ValueHead(8)
    torch.nn.init.ones_(head.out.weight)
    ids = torch.randint(50_000, (401,)).tolist()
    path = TokenPath(prompt_ids=ids[:1], completion_ids=ids[1:], outcome=0.0)
    batch = collate([path], pad_id=0, device=model.device)
    with LargestTensor() as largest:
        found = score_tokens(model, head, batch, body_share=1.0, entropy_gradient=True)
        (found.logprobs_BT - found.entropies_BT + found.values_BT).sum().backward()
        torch.testing.assert_close(
            compute_logprobs(model, batch), found.logprobs_BT, atol=1e-6, rtol=0
        )
    assert largest.elements <= 2**24
    gradients = [weight.grad for weight in model.parameters()]
    model.zero_grad()
    output = model(batch.tokens_BS, output_hidden_states=True)
    log_probs_TV = output.logits[0, :-1].log_softmax(-1)
    logprobs_T = log_probs_TV.gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]
    entropies_T = -(log_probs_TV.exp() * log_probs_TV).sum(-1)
    values_T = head(output.hidden_states[-1][0, :-1], body_share=1.0)
    (logprobs_T - entropies_T + values_T).sum().backward()
    for scored, expected in (
        (found.logprobs_BT[0], logprobs_T),
        (found.entropies_BT[0], entropies_T),
        (found.values_BT[0], values_T),
    ):
        torch.testing.assert_close(scored, expected, atol=2e-6, rtol=0)
    for scored, weight in zip(gradients, model.parameters(), strict=True):
        torch.testing.assert_close(scored, weight.grad, atol=1e-4, rtol=1e-4)


def test_entropy_has_a_gradient_only_if_requested(model):
    """Log-probabilities always have a gradient."""
    head = ValueHead(model.config.hidden_size)
    batch = collate(PATHS, pad_id=0, device=model.device)
    for wanted in (False, True):
        found = score_tokens(model, head, batch, body_share=0.0, entropy_gradient=wanted)
        assert found.logprobs_BT.requires_grad
        assert found.entropies_BT.requires_grad is wanted


@pytest.mark.parametrize("enabled", [False, True], ids=["full", "lora"])
def test_the_reference_is_the_policy_at_the_start(base: pathlib.Path, enabled: bool):
    """After all trainable weights have changed, the policy's scores differ, the reference's do not."""
    lora = LoraParams(enabled=enabled, rank=4)
    model = load_policy(str(base)).model.eval()
    device = torch.device("cpu")
    paths = [TokenPath(prompt_ids=[5, 6], completion_ids=[7, 8, 1], outcome=0.0)]
    batch = collate(paths, pad_id=0, device=device)
    start_BT = compute_logprobs(model, batch)
    reference = keep_reference(model, lora, device)
    policy = get_peft_model(model, make_lora_config(lora)).eval() if enabled else model
    with torch.no_grad():
        for weight in policy.parameters():
            if weight.requires_grad:
                weight.add_(1)
    with reference(policy) as opened:
        torch.testing.assert_close(compute_logprobs(opened, batch), start_BT)
    assert (compute_logprobs(policy, batch) - start_BT).abs().max() > 0.05


@pytest.fixture
def head() -> ValueHead:
    """A head with random weights, its output layer included."""
    head = ValueHead(4)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in head.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return head


def test_initial_values_are_zero():
    """For any hidden state, so the first advantages are the rewards."""
    assert not ValueHead(4)(torch.randn(2, 3, 4), body_share=0.0).any()


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_body_share_scales_the_gradient_into_the_body(head: ValueHead, share: float):
    """Values and the head's gradient do not change; the body's gradient is scaled by the share."""
    hidden_BTH = torch.randn(2, 3, 4, requires_grad=True)
    whole_BTH = torch.autograd.grad(
        head.out(torch.nn.functional.silu(head.hidden(hidden_BTH))).sum(), hidden_BTH
    )[0]
    values_BT = head(hidden_BTH, body_share=share)
    torch.testing.assert_close(values_BT, head(hidden_BTH, body_share=1.0))
    values_BT.sum().backward()
    found_BTH = torch.zeros_like(whole_BTH) if hidden_BTH.grad is None else hidden_BTH.grad
    torch.testing.assert_close(found_BTH, share * whole_BTH)
    assert head.hidden.weight.grad.abs().sum() > 0


def test_a_saved_head_loads_bit_for_bit(head: ValueHead, tmp_path):
    """All four tensors."""
    head.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    other = ValueHead(4)
    other.load(tmp_path)
    for name, weight in head.state_dict().items():
        assert torch.equal(other.state_dict()[name], weight)
