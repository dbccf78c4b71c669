"""Paths of a training step drawn through an endpoint: order, seeds, versions, failures."""

import pathlib
from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.engines.identity import Endpoint
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import FinishReason
from pipeline_lib.train.online.rewards import make_verified_reward
from pipeline_lib.train.online.rollouts import (
    EndpointRollouts,
    RolloutFunc,
    StepAdapter,
    make_rollout_func,
)
from pipeline_lib.verify.dispatch import open_verifier

GOLD = CountdownGold(numbers=(2, 3), target=5)


class Engine:
    """Records the adapters that it loads."""

    def __init__(self) -> None:
        self.loaded: list[tuple[str, str]] = []

    def load_adapter(self, name: str, folder: pathlib.Path, version: str) -> Endpoint:
        assert (folder / "weights").is_file()
        self.loaded.append((name, version))
        model = f"{name}@{version}"
        url = "http://127.0.0.1:8300/v1"
        return Endpoint(engine="x", base_url=url, model=model, identity="", adapter=model)


class Model:
    """Returns the prompt's text; listed prompts fail.

    ``num_ids`` and ``num_logprobs``: number of a path's tokens with an id and with a
    log-probability; -1 omits the field.
    """

    identity = "model"
    chat_format = None
    adapter = None
    arithmetic = None

    def __init__(self, tokenizer, *, failing=(), num_ids=99, num_logprobs=99) -> None:
        self.tokenizer = tokenizer
        self.failing = failing
        self.num_ids = num_ids
        self.num_logprobs = num_logprobs
        self.requests: list = []

    def complete(self, requests, _decoding):
        self.requests += requests
        return [[self.answer(r.prompt) for _ in r.seeds] for r in requests]

    def answer(self, prompt: str) -> Completion:
        tokens = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        failed = prompt in self.failing
        logprobs = (-0.5,) * len(tokens)
        return Completion(
            text="" if failed else prompt,
            finish_reason=FinishReason.ERROR if failed else FinishReason.STOP,
            prompt_tokens=1,
            completion_tokens=len(tokens),
            logprob=None,
            error="no route" if failed else None,
            token_ids=None if self.num_ids < 0 else tuple(tokens[: self.num_ids]),
            token_logprobs=None if self.num_logprobs < 0 else logprobs[: self.num_logprobs],
        )


@pytest.fixture
def tokenizer(base: pathlib.Path):
    return AutoTokenizer.from_pretrained(base)


def trainer_at(step: int, tokenizer) -> SimpleNamespace:
    def save(folder: pathlib.Path) -> None:
        folder.mkdir(parents=True)
        (folder / "weights").write_text(str(step))

    policy = SimpleNamespace(save_pretrained=save)
    return SimpleNamespace(
        state=SimpleNamespace(global_step=step),
        accelerator=SimpleNamespace(unwrap_model=lambda model: model),
        model=policy,
        processing_class=tokenizer,
    )


def rollouts_of(model: Model, engine: Engine, folder: pathlib.Path) -> RolloutFunc:
    rollouts = EndpointRollouts(
        adapter=StepAdapter(engine=engine, model_at=lambda _: model, folder=folder),
        decoding=Decoding(max_new_tokens=8),
        seed=3,
    )
    return make_rollout_func(rollouts)


def test_paths_are_in_the_order_of_prompts(tokenizer, tmp_path):
    """Four prompts in two groups: two requests of two seeds, and each path's tokens in its place."""
    model = Model(tokenizer)
    drawn = rollouts_of(model, Engine(), tmp_path)(
        ["2,3=5\n", "2,3=5\n", "4,4=8\n", "4,4=8\n"], trainer_at(0, tokenizer)
    )
    assert [(r.prompt, len(r.seeds)) for r in model.requests] == [("2,3=5\n", 2), ("4,4=8\n", 2)]
    texts = [tokenizer.decode(ids) for ids in drawn["completion_ids"]]
    assert texts[0] == texts[1] != texts[2] == texts[3]
    assert drawn["prompt_ids"] == drawn["completion_ids"]
    assert [len(logprobs) for logprobs in drawn["logprobs"]] == [
        len(ids) for ids in drawn["completion_ids"]
    ]
    assert drawn["failed"] == [False] * 4


def test_every_path_has_its_own_seed(tokenizer, tmp_path):
    """Seeds differ within a step and between steps, and are the same again in another run."""

    def seeds() -> list[int]:
        model = Model(tokenizer)
        rollouts = rollouts_of(model, Engine(), tmp_path / "a")
        for step in (0, 0, 1):
            rollouts(["2,3=5\n"] * 2, trainer_at(step, tokenizer))
        return [seed for request in model.requests for seed in request.seeds]

    first = seeds()
    assert len(set(first)) == 6
    (tmp_path / "a").rename(tmp_path / "b")
    assert seeds() == first


def test_adapter_of_each_step_is_loaded_once(tokenizer, tmp_path):
    """Its version is the step; the previous step's folder is deleted."""
    engine = Engine()
    rollouts = rollouts_of(Model(tokenizer), engine, tmp_path)
    for step in (0, 0, 1):
        rollouts(["2,3=5\n"], trainer_at(step, tokenizer))
    assert engine.loaded == [("policy", "0"), ("policy", "1")]
    assert [folder.name for folder in tmp_path.iterdir()] == ["step-1"]


def test_a_failed_path_gets_no_reward(tokenizer, tmp_path):
    """A path of 6 tokens becomes a single end token; the reward is None, not 0, whatever text replaces the path's."""
    model = Model(tokenizer, failing={"4,4=8\n"})
    drawn = rollouts_of(model, Engine(), tmp_path)(["2,3=5\n", "4,4=8\n"], trainer_at(0, tokenizer))
    assert drawn["failed"] == [False, True]
    assert drawn["completion_ids"][1] == [tokenizer.eos_token_id]
    assert drawn["logprobs"] == [[-0.5] * 6, [0.0]]
    with open_verifier(VerifyParams()) as verifier:
        reward = make_verified_reward({"p": GOLD}, verifier)
        rewards = reward(completions=["2+3=5", ""], problem_id=["p", "p"], failed=drawn["failed"])
    assert rewards == [1.0, None]


@pytest.mark.parametrize(
    ("num_ids", "num_logprobs"), [(-1, 6), (0, 0), (0, 6), (6, -1), (6, 0), (6, 1), (5, 6)]
)
def test_a_path_with_missing_tokens_is_refused(num_ids, num_logprobs, tokenizer, tmp_path):
    """A path of 6 tokens whose ids or log-probabilities are missing or too few: the line names the
    engine, its address, the model and both numbers. Padded by 0, a missing log-probability would
    count as a probability of 1.
    """
    model = Model(tokenizer, num_ids=num_ids, num_logprobs=num_logprobs)
    rollouts = rollouts_of(model, Engine(), tmp_path)
    found = f"{max(num_ids, 0)} token ids and {max(num_logprobs, 0)} log-probabilities"
    with pytest.raises(
        ReasonloopError, match=rf"engine x at http://127\.0\.0\.1:8300/v1 gave {found}"
    ):
        rollouts(["2,3=5\n"], trainer_at(0, tokenizer))
