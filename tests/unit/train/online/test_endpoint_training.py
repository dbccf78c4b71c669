"""GRPO through a real server, which draws from the weights in training; ratios of an external engine's paths."""

import math
import pathlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import get_peft_model

from pipeline_lib.determinism import deterministic
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.engines.started_engine import connect
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import LoraParams, Method, TrainParams
from pipeline_lib.train.methods import train_policy
from pipeline_lib.train.online import grpo
from pipeline_lib.train.online.rewards import Rewards, make_verified_reward
from pipeline_lib.train.online.rollouts import EndpointRollouts, StepAdapter, make_rollout_func
from pipeline_lib.train.trainer_settings import TrainerSettings, silence_libraries
from pipeline_lib.train.weights.adapters import make_lora_config
from pipeline_lib.train.weights.policies import load_policy
from pipeline_lib.verify.dispatch import open_verifier

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
        SERVE, model=str(base), log_folder=tmp_path / "logs", lora_rank=4
    ) as engine:
        rollouts = EndpointRollouts(
            adapter=StepAdapter(
                engine=engine,
                model_at=lambda endpoint: connect(endpoint, SERVE, model=str(base)),
                folder=tmp_path / "adapters",
            ),
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


PARAMS = TrainParams(method=Method.GRPO, group_size=2)
PROMPT, RIGHT, WRONG = "2,3=5\n", "3+2=5", "3*2=6"


def unlikelier_by(factor: float):
    """Draws a right and a wrong path with log-probabilities below those of the policy."""

    def draw(prompts: Any, trainer: Any) -> dict[str, list[Any]]:
        tokenizer = trainer.processing_class
        prompt = tokenizer.encode(PROMPT, add_special_tokens=False)
        paths = [
            [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
            for text in (RIGHT, WRONG)
        ]
        ids = torch.tensor([prompt + path for path in paths])
        with torch.no_grad():
            logits = trainer.model(input_ids=ids).logits[:, len(prompt) - 1 : -1]
        own = logits.log_softmax(-1).gather(-1, ids[:, len(prompt) :, None])[..., 0]
        return {
            "prompt_ids": [prompt] * 2,
            "completion_ids": paths,
            "logprobs": (own - math.log(factor)).tolist(),
            "failed": [False] * 2,
        }

    return draw


@pytest.mark.parametrize(("elsewhere", "expected"), [(True, 0.055), (False, 0.0)])
def test_the_ratio_is_policy_over_engine(elsewhere, expected, base: pathlib.Path, tmp_path):
    """Rewards 1 and 0 have advantages 1/2 and -1/2; both paths have the same length.

    An engine whose probability of each token is lower by 1.5 gives the ratio 1.5: clipped to 1.28 for the right
    path, unclipped for the wrong one, so the loss is -(1.28 - 1.5) / 2 / 2. Drawn by the policy itself the
    ratio is 1, and both cancel.
    """
    settings = {
        "output_dir": str(tmp_path),
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 1,
        "seed": 1,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
    }
    row = {"prompt": PROMPT, "problem_id": "p"}
    with (
        silence_libraries(),
        deterministic(threads=1, seed=0),
        open_verifier(VerifyParams()) as verifier,
    ):
        reward = make_verified_reward({"p": CountdownGold(numbers=(2, 3), target=5)}, verifier)
        make_trainer = grpo.trainer_factory(
            [row],
            # The engine's policy has adapters; this one has none, which the params would refuse.
            PARAMS.model_copy(update={"rollouts": "endpoint" if elsewhere else "in_process"}),
            rewards=Rewards(functions=[reward], weights=[1.0]),
            make_rollouts=lambda _source: unlikelier_by(1.5),
            max_new_tokens=8,
        )
        trainer: Any = make_trainer(load_policy(str(base)), TrainerSettings(settings))
        trainer.current_gradient_accumulation_steps = 1
        inputs = trainer._generate_and_score_completions([dict(row), dict(row)])
        loss = trainer.compute_loss(trainer.model.train(), inputs)
    assert loss.item() == pytest.approx(expected, abs=1e-5)
    assert trainer._metrics["train"]["logprob_gap"] == [pytest.approx(math.log(1.5), abs=1e-5)]


class OfAnotherStep:
    """Draws at each step with the adapter of the step before, after the first; a path source around another."""

    def __init__(self, source: Any) -> None:
        self._source, self._weights = source, None

    def draw(self, prompts: Any, *, model: Any, tokenizer: Any, step: int) -> Any:
        now = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        stale = self._weights or now
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(stale[name])
            paths = self._source.draw(prompts, model=model, tokenizer=tokenizer, step=step)
            for name, weight in model.named_parameters():
                weight.copy_(now[name])
        self._weights = now
        return paths


def test_a_stale_adapter_ends_the_training(request_for, half_solved, tmp_path):
    """At the second step sampler and trainer differ; the line names the limit."""
    train = {"warm_start_steps": 0, "warmup_fraction": 0, "lr": 0.05, "lora": LORA}
    request = request_for(
        Method.GRPO, tmp_path / "out", train=train, through=OfAnotherStep, **half_solved
    )
    with pytest.raises(ReasonloopError, match=r"step 2: sampler and trainer differ by .* nats"):
        train_policy(request)
