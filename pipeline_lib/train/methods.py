"""From a request to a trained policy: the phases of each method, in order.

Online methods may begin with a warm start, SFT on the distinct correct stored paths (expert iteration). It
is mass-covering, whereas the policy gradient sharpens.
"""

import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.gpus import free_gpu_memory
from pipeline_lib.engines.known.table import check_installed
from pipeline_lib.engines.started_engine import connect
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import Method, RewardParams, TrainParams
from pipeline_lib.records import Path, Problem
from pipeline_lib.store import manifests
from pipeline_lib.store.checkpoints import work_folder
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.offline import dpo, sft
from pipeline_lib.train.online import grpo, rewards
from pipeline_lib.train.online.live_rollouts import LiveRollouts
from pipeline_lib.train.online.own_rewards import own_rewards
from pipeline_lib.train.online.rollouts import (
    EndpointRollouts,
    PathSource,
    StepAdapter,
    first_engine,
    make_rollout_func,
)
from pipeline_lib.train.online.stored_rollouts import StoredRollouts, stored_by_prompt
from pipeline_lib.train.phases import MakeTrainer, Phase, Progress, Row, Schedule, TrainContext
from pipeline_lib.train.ppo import trainer as ppo
from pipeline_lib.train.sequence import run_phases
from pipeline_lib.train.tracking.trackers import Trackers
from pipeline_lib.train.trainer_settings import longest_row
from pipeline_lib.train.weights import policies
from pipeline_lib.train.weights.models import make_quantization_config
from pipeline_lib.verify.dispatch import open_verifier


def _unchanged(source: PathSource) -> PathSource:
    return source


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRequest:
    """One training of one policy on verified paths."""

    base: str
    """A Hugging Face folder or hub id."""
    output: pathlib.Path
    rows: Sequence[Row]
    """SFT: prompt, completion. DPO: prompt, chosen, rejected. Online: prompt, problem_id."""
    warm_start_rows: Sequence[Row] = ()
    """SFT rows for the start of an online method."""
    problems: Sequence[Problem] = ()
    """Problems of the rows; an online method needs their golds."""
    params: TrainParams
    verify: VerifyParams
    max_new_tokens: int
    """Length limit of the paths that an online method draws."""
    make_rewards: rewards.MakeRewards | None = None
    """For an online method; None: the verified reward alone."""
    serve: ServeParams = field(default_factory=ServeParams)
    """The engine that draws these paths if ``params.rollouts`` is ``endpoint``."""
    stored: Sequence[Path] = ()
    """The paths if ``params.rollouts`` is ``stored``, with token ids."""
    through: Callable[[PathSource], PathSource] = _unchanged
    """From the source of ``params.rollouts`` to the source of the paths that an online method trains on."""
    seed: int
    key: str
    """The stage key: checkpoints of another key are not resumed."""
    progress: Progress | None = None
    trackers: Trackers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSummary:
    """Result of a training."""

    digest: str
    """Digest of the folder's content."""
    steps: int
    seconds: float
    """Wall time of this call, which is near zero if the result existed."""
    last: Mapping[str, float]
    """Metrics of the last step."""


PhasesOf = Callable[[TrainingRequest, ExitStack], list[Phase]]
"""The phases of a request; what they open is closed with the stack."""


def train_policy(request: TrainingRequest) -> TrainingSummary:
    """Train, save and seal the policy; finished work of the same ``request.key`` is reused.

    Raises:
        BadInputError: the base cannot be loaded, there are no rows to train on, or the machine lacks
            what a setting needs.
    """
    _check(request)
    start = time.perf_counter()
    find = partial(manifests.current, request.output, kind=policies.KIND, key=request.key)
    manifest = present_devices().from_main(find)
    if manifest is None:
        with ExitStack() as stack:
            phases = [
                replace(phase, lora=request.params.lora)
                for phase in TRAINERS[request.params.method](request, stack)
            ]
            context = TrainContext(
                work=work_folder(request.output, request.key),
                key=request.key,
                seed=request.seed,
                threads=request.params.threads,
                sharding=request.params.sharding,
                progress=request.progress,
                trackers=request.trackers,
                problems=request.problems,
            )
            manifest = run_phases(phases, request.base, request.output, context=context)
        free_gpu_memory()  # of trainers, which are freed late: they refer to each other
    return summarize(request.output, manifest, seconds=time.perf_counter() - start)


def _check(request: TrainingRequest) -> None:
    if not request.rows:
        raise BadInputError(
            f"train: no rows for method {request.params.method.value}; no stored path passed the "
            "filters of build: sample more paths, or widen build.min_pass_rate and max_pass_rate"
        )
    if (precision := request.params.lora.quantize) != "none":
        make_quantization_config(precision)
    if request.trackers is not None:
        request.trackers.check()
    if request.params.rollouts == "endpoint":
        check_installed(request.serve)


def summarize(folder: pathlib.Path, manifest: Manifest, *, seconds: float) -> TrainingSummary:
    """Summary of a finished policy folder."""
    log = list(read_json_lines(folder / policies.LOG_NAME))
    last = {name: value for name, value in log[-1].items() if name not in {"phase", "step"}}
    return TrainingSummary(
        digest=manifest.digest, steps=len(log), seconds=seconds, last=MappingProxyType(last)
    )


def _sft_phases(request: TrainingRequest, _stack: ExitStack) -> list[Phase]:
    return [_supervised("sft", request.rows, schedule_stored_rows(request.params), request)]


def _supervised(
    name: str, rows: Sequence[Row], schedule: Schedule, request: TrainingRequest
) -> Phase:
    return Phase(
        name=name,
        schedule=schedule,
        make_trainer=sft.trainer_factory(rows, lora=request.params.lora),
        row_tokens=sft.row_tokens(rows),
    )


def _dpo_phases(request: TrainingRequest, _stack: ExitStack) -> list[Phase]:
    rows, params = request.rows, request.params
    return [
        Phase(
            name="dpo",
            schedule=schedule_stored_rows(params),
            make_trainer=dpo.trainer_factory(rows, beta=params.dpo_beta, lora=params.lora),
            row_tokens=dpo.pair_tokens(rows),
        )
    ]


def _grpo_phases(request: TrainingRequest, stack: ExitStack) -> list[Phase]:
    source_of = _path_source(request, stack)
    make_trainer = grpo.trainer_factory(
        request.rows,
        request.params,
        rewards=_rewards(request, stack),
        make_rollouts=lambda policy: make_rollout_func(source_of(policy)),
        max_new_tokens=request.max_new_tokens,
    )
    return _online_phases(request, make_trainer)


def _ppo_phases(request: TrainingRequest, stack: ExitStack) -> list[Phase]:
    make_trainer = ppo.trainer_factory(
        request.rows,
        request.params,
        reward=_rewards(request, stack).single,
        source_of=_path_source(request, stack),
    )
    return _online_phases(request, make_trainer)


def _rewards(request: TrainingRequest, stack: ExitStack) -> rewards.Rewards:
    verifier = stack.enter_context(open_verifier(request.verify))
    golds = {problem.id: problem.gold for problem in request.problems}
    verified = rewards.make_verified_reward(golds, verifier)
    if request.make_rewards is not None:
        return request.make_rewards(verified, verifier)
    problems = {problem.id: problem for problem in request.problems}
    return own_rewards(
        request.params.rewards or [RewardParams(name="verified")],
        verified, problems, verifier, request.verify.own, stack,
    )  # fmt: skip


def _online_phases(request: TrainingRequest, make_trainer: MakeTrainer) -> list[Phase]:
    params, rows = request.params, request.warm_start_rows
    warm_start = []
    if params.warm_start_steps > 0 and rows:
        warm_start = [_supervised("warm-start", rows, schedule_warm_start(params), request)]
    online = Phase(
        name=params.method.value,
        schedule=schedule_drawn_paths(params),
        make_trainer=make_trainer,
        row_tokens=lambda tokenizer: longest_row(request.rows, tokenizer) + request.max_new_tokens,
    )
    return [*warm_start, online]


def _path_source(request: TrainingRequest, stack: ExitStack) -> Callable[[str], PathSource]:
    decoding = Decoding(max_new_tokens=request.max_new_tokens)
    if request.params.rollouts == "stored":
        by_prompt = stored_by_prompt(request.rows, request.stored)
        if not any(by_prompt.values()):
            raise BadInputError(
                "train.rollouts=stored: no stored paths of these problems; run the stage sample first"
            )
        stored = StoredRollouts(paths=by_prompt, seed=request.seed)
        return lambda _policy: request.through(stored)
    if request.params.rollouts == "in_process":
        live = LiveRollouts(decoding=decoding, seed=request.seed)
        return lambda _policy: request.through(live)
    work = work_folder(request.output, request.key)

    def open_engine(source: str) -> PathSource:
        rank = request.params.lora.rank
        engine = first_engine(stack, request.serve, model=source, log_folder=work, lora_rank=rank)
        served = EndpointRollouts(
            adapter=StepAdapter(
                engine=engine,
                model_at=lambda endpoint: connect(endpoint, request.serve, model=source),
                folder=work / "adapters",
            ),
            decoding=decoding,
            seed=request.seed,
        )
        return request.through(served)

    return open_engine


def schedule_stored_rows(params: TrainParams) -> Schedule:
    """SFT and DPO: sequences or pairs, with a cosine decay."""
    return Schedule(
        steps=params.steps,
        lr=params.lr,
        batch_size=params.batch_size,
        micro_batch_size=_micro_batch_size(params, params.batch_size),
        shape="cosine",
        warmup_fraction=params.warmup_fraction,
        checkpoint_every=params.checkpoint_every,
        gradient_checkpointing=params.gradient_checkpointing,
    )


def schedule_warm_start(params: TrainParams) -> Schedule:
    """SFT before an online method."""
    return replace(
        schedule_stored_rows(params),
        steps=params.warm_start_steps,
        lr=params.warm_start_lr,
        batch_size=params.warm_start_batch_size,
        micro_batch_size=_micro_batch_size(params, params.warm_start_batch_size),
    )


def schedule_drawn_paths(params: TrainParams) -> Schedule:
    """Online methods: groups of paths, at a constant rate after warm-up.

    The paths of a draw are in no checkpoint, so checkpoints are made only where the next draw begins.
    """
    paths = params.batch_size * params.group_size
    draws_per_checkpoint = -(-params.checkpoint_every // params.updates_per_rollout)
    return replace(
        schedule_stored_rows(params),
        batch_size=paths,
        micro_batch_size=_micro_batch_size(params, paths),
        shape="constant_with_warmup",
        checkpoint_every=draws_per_checkpoint * params.updates_per_rollout,
    )


def _micro_batch_size(params: TrainParams, batch_size: int) -> int | None:
    return params.micro_batch_size and min(params.micro_batch_size, batch_size)


TRAINERS: Mapping[Method, PhasesOf] = {
    Method.SFT: _sft_phases,
    Method.DPO: _dpo_phases,
    Method.GRPO: _grpo_phases,
    Method.RLOO: _grpo_phases,
    Method.PPO: _ppo_phases,
}
"""The phases of each method."""
