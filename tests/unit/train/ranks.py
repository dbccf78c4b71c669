"""Trainings in several processes of a gloo group, forked from one that has imported the library."""

import inspect
import json
import multiprocessing
import os
import pathlib
import socket
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from accelerate import state

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.apr import AprRlParams
from pipeline_lib.params.train import TokenSftParams
from pipeline_lib.systems.apr.rl import make_phase as rl_phase
from pipeline_lib.train.devices import join_process_group, present_devices
from pipeline_lib.train.methods import TrainingRequest, train_policy
from pipeline_lib.train.offline.bucketed_sft import TokenRow, encode_rows, plan_steps, token_phase
from pipeline_lib.train.online.live_rollouts import LiveRollouts
from pipeline_lib.train.online.rollouts import DrawnPath, PathSource
from pipeline_lib.train.phases import TrainContext
from pipeline_lib.train.rollout_grpo.rollouts import RewardedRollout
from pipeline_lib.train.sequence import run_phases
from pipeline_lib.train.weights.policies import load_training_tokenizer

TIMEOUT_S = 240.0


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Writes what each process draws at each step; a path source around another."""

    source: PathSource
    folder: pathlib.Path

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[DrawnPath]:
        paths = self.source.draw(prompts, model=model, tokenizer=tokenizer, step=step)
        drawn = [
            [prompt, list(path.completion_ids)] for prompt, path in zip(prompts, paths, strict=True)
        ]
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.folder / f"{step:03}-{present_devices().rank}.json"
        place.write_text(json.dumps(drawn))
        return paths


@dataclass(frozen=True, kw_only=True)
class ToyRollouts:
    """Paths of the policy as rollouts of one sequence, right if their tokens have an even sum."""

    paths: LiveRollouts

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[RewardedRollout]:
        drawn = self.paths.draw(prompts, model=model, tokenizer=tokenizer, step=step)
        return [
            RewardedRollout(
                sequences=[
                    TokenRow(
                        ids_L=np.array([*path.prompt_ids, *path.completion_ids], dtype=np.int32),
                        loss_from=len(path.prompt_ids),
                    )
                ],
                reward=float(sum(path.completion_ids) % 2 == 0),
                counts={},
            )
            for path in drawn
        ]


def train_phase(kind: str, base: str, rows: Sequence[Any], output: pathlib.Path) -> None:
    """A training by tokens, by AdamW or Muon, or on rollouts."""
    context = TrainContext(work=output.with_suffix(".work"), key="key", seed=5, threads=1)
    if kind == "rollouts":
        rl = AprRlParams(steps=6, prompts=4, group_size=4, updates=2, lr=1e-3, pass_tokens=64)
        decoding = Decoding(max_new_tokens=8)
        source = ToyRollouts(paths=LiveRollouts(decoding=decoding, seed=5))
        phase = rl_phase(rows, source, rl, kind="parallel")
    else:
        sft = TokenSftParams(
            tokens=1200,
            step_tokens=200,
            pass_tokens=64,
            optimizer=kind,
            lr=1e-3,
            warmup_fraction=0.0,
        )
        encoded = encode_rows(rows, load_training_tokenizer(base))
        lengths = [len(row.ids_L) for row in encoded]
        plan = plan_steps(lengths, tokens=sft.tokens, step_tokens=sft.step_tokens, seed=5)
        phase = token_phase("tokens", encoded, plan, sft)
    run_phases([phase], base, output, context=context)


def train_each(requests: Mapping[str, TrainingRequest]) -> dict[str, str | None]:
    """Train each request in its turn; the errors by name."""
    found: dict[str, str | None] = {}
    for name, request in requests.items():
        folder = request.output.parent / "draws" / name
        recorded = replace(request, through=lambda one, to=folder: Recorded(source=one, folder=to))
        try:
            train_policy(recorded)
        except ReasonloopError as error:
            found[name] = str(error)
        else:
            found[name] = None
    return found


@dataclass(frozen=True, kw_only=True)
class ExitAt:
    """A progress callback that ends its process at a step, in place of a kill."""

    step: int

    def __call__(self, now: int, *_: object) -> None:
        if now == self.step:
            os._exit(9)


def train_sharded(requests: Mapping[str, TrainingRequest]) -> dict[str, str | None]:
    """As `train_each`, where accelerate knows FSDP: 1.15 takes it for no CPU, and says nothing."""
    source = textwrap.dedent(inspect.getsource(state.AcceleratorState.__init__))
    known = "DistributedType.MULTI_GPU,\n"
    assert source.count(known) == 1
    source = source.replace(known, f"{known}DistributedType.MULTI_CPU,\n")
    changed = dict(vars(state))
    exec(compile(source, "state", "exec"), changed)
    state.AcceleratorState.__init__ = changed["__init__"]
    return train_each(requests)


def run_ranks(world: int, work: Any, *arguments: Any, is_lost: bool = False) -> list[Any]:
    """``work(*arguments)`` in ``world`` processes of one group; what each returned, nothing if a process is lost."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    results = context.SimpleQueue()
    ranks = [
        context.Process(target=_join, args=(rank, world, port, results, work, arguments))
        for rank in range(world)
    ]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join(TIMEOUT_S)
        if one.is_alive():
            one.kill()
    if is_lost:
        assert all(one.exitcode for one in ranks)
        return []
    assert [one.exitcode for one in ranks] == [0] * world
    found = dict(results.get() for _ in ranks)
    return [found[rank] for rank in range(world)]


def _join(
    rank: int, world: int, port: int, results: Any, work: Any, arguments: tuple[Any, ...]
) -> None:
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": rank, "LOCAL_RANK": rank}
    os.environ.update({name: str(value) for name, value in {**group, "WORLD_SIZE": world}.items()})
    with join_process_group():
        results.put((rank, work(*arguments)))
