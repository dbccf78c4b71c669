"""GRPO through a real server, which draws from the weights in training."""

import pathlib
from types import SimpleNamespace

import pytest
import torch
from peft import get_peft_model

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.client.connect import connect
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import LoraParams, Method
from pipeline_lib.train.methods import train_policy
from pipeline_lib.train.online.rollouts import EndpointRollouts, make_rollout_func
from pipeline_lib.train.weights.adapters import make_lora_config
from pipeline_lib.train.weights.policies import load_policy

SERVE = ServeParams(engine="embedded", port=8460)
LORA = LoraParams(enabled=True, rank=4)
PROMPTS = ["2,3=5\n"] * 4 + ["9,4=36\n"] * 4


def logprobs_of(model, prompt_ids, completion_ids) -> torch.Tensor:
    ids = torch.tensor([[*prompt_ids, *completion_ids]])
    with torch.inference_mode():
        logits = model(input_ids=ids).logits[0, len(prompt_ids) - 1 : -1]
    return logits.log_softmax(-1).gather(-1, ids[0, len(prompt_ids) :, None])[:, 0]


def test_paths_are_drawn_from_the_weights_of_their_step(base: pathlib.Path, tmp_path):
    """At steps 0, 1 and 2, each with new weights, server and trainer agree on log-probabilities."""
    policy = load_policy(str(base))
    model = get_peft_model(policy.model, make_lora_config(LORA)).eval()
    draws = []
    with serving_engine(
        SERVE, model=str(base), log_folder=tmp_path / "logs", lora=True, max_lora_rank=4
    ) as engine:
        rollouts = EndpointRollouts(
            engine=engine,
            model_at=lambda endpoint: connect(endpoint, SERVE, model=str(base)),
            folder=tmp_path / "adapters",
            decoding=Decoding(max_new_tokens=8),
            seed=1,
        )
        for step in range(3):
            trainer = SimpleNamespace(
                state=SimpleNamespace(global_step=step),
                accelerator=SimpleNamespace(unwrap_model=lambda one: one),
                model=model,
                processing_class=policy.tokenizer,
            )
            drawn = make_rollout_func(rollouts)(PROMPTS, trainer)
            assert drawn["failed"] == [False] * 8
            for prompt, tokens, served in zip(
                drawn["prompt_ids"], drawn["completion_ids"], drawn["logprobs"], strict=True
            ):
                assert 1 <= len(tokens) <= 8
                local = logprobs_of(model, prompt, tokens)
                torch.testing.assert_close(torch.tensor(served), local, atol=1e-3, rtol=0)
            draws.append(drawn["logprobs"])
            with torch.no_grad():
                for name, weight in model.named_parameters():
                    if "lora_" in name:
                        weight.add_(
                            torch.randn(weight.shape, generator=torch.Generator().manual_seed(step))
                        )
    assert draws[0] != draws[1] != draws[2]


@pytest.mark.slow
def test_training_through_a_server_gives_a_policy(request_for, tmp_path):
    """The whole method: warm start in process, then steps whose paths come from the server."""
    request = request_for(
        Method.GRPO,
        tmp_path / "out",
        train={"rollouts": "endpoint", "lora": LORA, "steps": 2},
        serve=SERVE,
    )
    summary = train_policy(request)
    assert summary.steps == 4
    assert summary.last["mean_tokens"] > 0
    # The adapters of single steps are gone; that of the phase is kept.
    assert not list(tmp_path.rglob("step-*"))
