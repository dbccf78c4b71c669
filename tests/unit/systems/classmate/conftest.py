"""Tiny models as peers, and a reward on problems with scripted peers, called as TRL calls it."""

import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.peer import Peer
from pipeline_lib.systems.classmate.reward import make_classmate_rewards
from pipeline_lib.train.online.rewards import make_verified_reward
from pipeline_lib.verify.dispatch import open_verifier
from tests.unit.systems.classmate.peer_models import save_chat_peer, save_peer


class Letters:
    """A tokenizer with a token per letter, by the number of the letter."""

    def encode(self, text: str, **_: Any) -> list[int]:
        """Letters to numbers."""
        return [*map(ord, text)]

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        """Inverse of `encode`."""
        return "".join(map(chr, ids))

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The letters."""
        return [*map(chr, ids)]


@dataclass(slots=True, kw_only=True)
class CalledReward:
    """The rewards of a training, called for one draw after another."""

    functions: Sequence[Callable[..., list[float | None]]]
    weights: Sequence[float]
    held: Callable[[], Sequence[Sequence[int]]] | None = None
    figures: dict[str, float] = field(default_factory=dict)
    """Of the last draw."""

    def __call__(
        self,
        paths: Sequence[tuple[str, str]],
        *,
        step: int = 0,
        failed: Sequence[bool] | None = None,
    ) -> list[float | None]:
        """The reward of each (problem id, completion), by the first function."""
        return self.parts(paths, step=step, failed=failed)[0]

    def parts(
        self,
        paths: Sequence[tuple[str, str]],
        *,
        step: int = 0,
        failed: Sequence[bool] | None = None,
    ) -> list[list[float | None]]:
        """The rewards by each function, with the keywords of TRL 1.16."""
        self.figures.clear()
        columns: dict[str, Any] = {
            "prompts": ["?"] * len(paths),
            "completions": [text for _, text in paths],
            "completion_ids": [Letters().encode(text) for _, text in paths],
            "problem_id": [name for name, _ in paths],
            "failed": failed or [False] * len(paths),
            "trainer_state": SimpleNamespace(global_step=step),
            "log_extra": lambda *_: None,
            "log_metric": self.figures.__setitem__,
        }
        return [function(**columns) for function in self.functions]


RewardOf = Callable[..., CalledReward]


@pytest.fixture
def reward_of(tmp_path: pathlib.Path):
    """Makes the reward of peers; keywords are params of Classmate."""
    with open_verifier(VerifyParams()) as verifier:

        def make(
            peers: Sequence[Peer],
            problems: Sequence[Problem],
            *,
            method: Method = Method.GRPO,
            group_size: int = 2,
            seed: int = 7,
            judge: Any = verifier,
            folder: pathlib.Path = tmp_path / "draws",
            **params: Any,
        ) -> CalledReward:
            golds = {problem.id: problem.gold for problem in problems}
            make_rewards = make_classmate_rewards(
                peers,
                problems,
                tokenizer=Letters(),
                params=ClassmateParams(**params),
                train=TrainParams(method=method, group_size=group_size),
                seed=seed,
                folder=folder,
            )
            rewards = make_rewards(make_verified_reward(golds, judge), judge)
            return CalledReward(
                functions=rewards.functions, weights=rewards.weights, held=rewards.held
            )

        yield make


@pytest.fixture(scope="session")
def compact_peer(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model of compact prompts, without a chat template."""
    return save_peer(tmp_path_factory.mktemp("compact"))


@pytest.fixture(scope="session")
def chat_peer(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model with a chat template and another tokenizer."""
    return save_chat_peer(tmp_path_factory.mktemp("chat"))
