"""Trainings on a GPU: where four are visible they take one, with the weights of one.

Weights and gradients of every update are on that GPU, and float32.
"""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from pipeline_lib.params.train import Method
from pipeline_lib.store import manifests
from pipeline_lib.systems.pacore.synthesizer import train_synthesizer
from pipeline_lib.systems.prr.training.train import train_latent
from pipeline_lib.train.methods import train_policy
from tests.simulated_cuda import device
from tests.unit.systems.apr import conftest as threads
from tests.unit.systems.apr.rl import test_train as thread_rl
from tests.unit.systems.apr.test_sft import PARAMS
from tests.unit.systems.apr.test_sft import train as train_threads
from tests.unit.systems.classmate import tiny_training as classmate
from tests.unit.systems.pacore import test_synthesizer as pacore
from tests.unit.systems.prr.small_training import small_training
from tests.unit.train import conftest as loop

pytestmark = pytest.mark.gpu
tiny, problems, rows, base, request_for = (
    loop.tiny,
    loop.problems,
    loop.rows,
    loop.base,
    loop.request_for,
)
small_data = threads.small_data
questions = pacore.questions


@pytest.fixture(scope="module")
def synthesizer_base(tmp_path_factory):
    """The base of the tests of PaCoRe, under a name of its own."""
    return pacore.make_base(tmp_path_factory.mktemp("synthesizer"))


@pytest.fixture(scope="module")
def rl_data(tmp_path_factory):
    """Problems of threads to draw for."""
    return thread_rl.make_data(tmp_path_factory.mktemp("rl-data"))


@pytest.fixture(scope="module")
def rl_model(rl_data, tmp_path_factory):
    """A model that solves a part of them."""
    return thread_rl.make_model(rl_data, tmp_path_factory.mktemp("rl-model"))


Train = Callable[[pathlib.Path], Any]


@pytest.fixture
def updates() -> Iterator[list[tuple[set[str], set[torch.dtype]]]]:
    """Devices and dtypes of the weights and gradients of each update."""
    seen: list[tuple[set[str], set[torch.dtype]]] = []

    def note(optimizer: Any, *_: Any) -> None:
        weights = [one for group in optimizer.param_groups for one in group["params"]]
        tensors = [*weights, *(one.grad for one in weights if one.grad is not None)]
        seen.append(({str(one.device) for one in tensors}, {one.dtype for one in tensors}))

    hook = register_optimizer_step_pre_hook(note)
    yield seen
    hook.remove()


def check(train: Train, folder: pathlib.Path, updates: list[Any]) -> None:
    """``train`` by itself, then where four GPUs are visible."""
    digests = []
    for gpus in (1, 4):
        with device.visible(gpus):
            digests.append(train(folder / str(gpus)))
            assert {0} >= device.STARTED
    assert updates
    assert all(devices == {"cuda:0"} for devices, _ in updates)
    assert all(dtypes == {torch.float32} for _, dtypes in updates)
    assert digests[0] == digests[1]


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("method", list(Method))
def test_methods(method, lora, request_for, tmp_path, updates):
    """SFT, DPO, GRPO, RLOO and PPO, with a warm start where there is one."""

    def train(folder: pathlib.Path) -> str:
        changes = {"steps": 1, "warm_start_steps": 1, "lora": {"enabled": lora, "rank": 4}}
        return train_policy(request_for(method, folder, train=changes)).digest

    check(train, tmp_path, updates)


def test_threads_on_traces(small_data, tmp_path, updates):
    """SFT of APR."""
    few = PARAMS.model_copy(update={"sft": PARAMS.sft.model_copy(update={"tokens": 2_000})})

    def train(folder: pathlib.Path) -> str:
        return train_threads(small_data, folder, params=few).digest

    check(train, tmp_path, updates)


def test_threads_by_rollouts(rl_model, rl_data, tmp_path, updates):
    """GRPO over rollouts of APR."""
    one = thread_rl.PARAMS.model_copy(update={"steps": 1})

    def train(folder: pathlib.Path) -> str:
        return thread_rl.train(rl_model, rl_data, folder, rl=one).digest

    check(train, tmp_path, updates)


@pytest.mark.parametrize("method", [Method.SFT, Method.GRPO, Method.PPO])
def test_a_synthesizer(method, synthesizer_base, questions, tmp_path, updates):
    """PaCoRe, on cached responses."""

    def train(folder: pathlib.Path) -> str:
        params = pacore.params(method, steps=1)
        return train_synthesizer(synthesizer_base, questions, folder, params).summary.digest

    check(train, tmp_path, updates)


def test_an_actor_with_peers(tmp_path, updates):
    """Classmate, GRPO with two peers on the same GPU."""
    for seed, name in enumerate(("base", "other")):
        classmate.make_model(tmp_path / name, seed=seed, steps=2)

    def train(folder: pathlib.Path) -> str:
        classmate.train(
            tmp_path, folder, Method.GRPO, classmate.peers_of(tmp_path), classmate={}, steps=1
        )
        return manifests.read_manifest(folder).digest

    check(train, tmp_path / "out", updates)


@pytest.mark.parametrize("kind", ["prr", "trm"])
def test_latent_models(kind, tmp_path, updates):
    """PRR and TRM."""

    def train(folder: pathlib.Path) -> str:
        train_latent(small_training(folder, kind, steps=2))
        return manifests.read_manifest(folder).digest

    check(train, tmp_path, updates)
