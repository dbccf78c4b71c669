"""From a request to a trained policy: which phases a method has, and in what order.

Online methods may begin with a warm start, supervised on the distinct correct stored paths (expert
iteration): mass-covering, where the policy gradient sharpens.
"""

import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.kind import Gold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.records import Problem
from pipeline_lib.serving.chat_model import Decoding
from pipeline_lib.serving.connect import connect
from pipeline_lib.serving.running_engine import serving_engine
from pipeline_lib.storage import manifests
from pipeline_lib.storage.checkpoints import work_folder
from pipeline_lib.storage.files import read_json_lines
from pipeline_lib.storage.manifests import Manifest
from pipeline_lib.training import dpo, grpo, policies, rloo, sft
from pipeline_lib.training.live_rollouts import LiveRollouts
from pipeline_lib.training.online import Rollouts, verified_reward
from pipeline_lib.training.phases import MakeTrainer, Phase, Progress, Row, Schedule, Setting
from pipeline_lib.training.ppo import trainer as ppo
from pipeline_lib.training.quantization import four_bit_config
from pipeline_lib.training.rollouts import EndpointRollouts, PathSource, rollout_func
from pipeline_lib.training.sequence import run_phases
from pipeline_lib.training.tracking import Trackers
from pipeline_lib.verification.dispatch import open_verifier


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
    """The problems that the rows of an online method name."""
    params: TrainParams
    verify: VerifyParams
    max_new_tokens: int
    """Length limit of the paths that an online method draws."""
    serve: ServeParams = field(default_factory=ServeParams)
    """The engine that draws them, where ``params.rollouts`` is ``endpoint``."""
    seed: int
    key: str
    """The stage key: checkpoints of another key are not resumed."""
    progress: Progress | None = None
    trackers: Trackers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSummary:
    """What a training left behind."""

    digest: str
    """Of the folder's content."""
    steps: int
    seconds: float
    """Of this call: near zero where the result stood there already."""
    last: Mapping[str, float]
    """Metrics of the last step."""


PhasesOf = Callable[[TrainingRequest, ExitStack], list[Phase]]


def train_policy(request: TrainingRequest) -> TrainingSummary:
    """Train, save and seal the policy; what is finished for ``request.key`` is not done again.

    Raises:
        BadInputError: the base cannot be loaded, there are no rows to train on, or this machine
            cannot do what is asked.
    """
    _check(request)
    start = time.perf_counter()
    manifest = manifests.current(request.output, kind=policies.KIND, key=request.key)
    if manifest is None:
        with ExitStack() as stack:
            phases = [
                replace(phase, four_bit=_in_four_bits(request))
                for phase in TRAINERS[request.params.method](request, stack)
            ]
            manifest = run_phases(phases, request.base, request.output, setting=_setting(request))
    return summary(request.output, manifest, seconds=time.perf_counter() - start)


def _check(request: TrainingRequest) -> None:
    if not request.rows:
        raise BadInputError(
            f"train: no rows for method {request.params.method.value}; no stored path passed the "
            "filters of build: sample more paths, or widen build.min_pass_rate and max_pass_rate"
        )
    if _in_four_bits(request):
        four_bit_config()
    if request.trackers is not None:
        request.trackers.check()


def _in_four_bits(request: TrainingRequest) -> bool:
    return request.params.lora.quantize == "4bit"


def summary(folder: pathlib.Path, manifest: Manifest, *, seconds: float) -> TrainingSummary:
    """Summary of a finished policy folder."""
    log = list(read_json_lines(folder / policies.LOG_NAME))
    last = {name: value for name, value in log[-1].items() if name not in {"phase", "step"}}
    return TrainingSummary(
        digest=manifest.digest, steps=len(log), seconds=seconds, last=MappingProxyType(last)
    )


def _setting(request: TrainingRequest) -> Setting:
    return Setting(
        work=work_folder(request.output, request.key),
        key=request.key,
        seed=request.seed,
        threads=request.params.threads,
        progress=request.progress,
        trackers=request.trackers,
    )


def _sft_phases(request: TrainingRequest, _stack: ExitStack) -> list[Phase]:
    params = request.params
    make_trainer = sft.trainer_maker(request.rows, lora=params.lora)
    return [Phase(name="sft", schedule=_over_stored_rows(params), make_trainer=make_trainer)]


def _dpo_phases(request: TrainingRequest, _stack: ExitStack) -> list[Phase]:
    params = request.params
    make_trainer = dpo.trainer_maker(request.rows, beta=params.dpo_beta, lora=params.lora)
    return [Phase(name="dpo", schedule=_over_stored_rows(params), make_trainer=make_trainer)]


def _grpo_phases(request: TrainingRequest, stack: ExitStack) -> list[Phase]:
    params = request.params
    make_trainer = grpo.trainer_maker(
        request.rows,
        golds=_golds(request),
        verifier=stack.enter_context(open_verifier(request.verify)),
        rollouts=_rollouts(request, stack),
        objective=grpo.Objective(variant=params.variant, entropy_coef=params.entropy_coef),
        lora=params.lora,
    )
    return _online_phases(request, make_trainer)


def _rloo_phases(request: TrainingRequest, stack: ExitStack) -> list[Phase]:
    make_trainer = rloo.trainer_maker(
        request.rows,
        golds=_golds(request),
        verifier=stack.enter_context(open_verifier(request.verify)),
        rollouts=_rollouts(request, stack),
        lora=request.params.lora,
    )
    return _online_phases(request, make_trainer)


def _ppo_phases(request: TrainingRequest, stack: ExitStack) -> list[Phase]:
    params = request.params
    verifier = stack.enter_context(open_verifier(request.verify))
    make_trainer = ppo.trainer_maker(
        request.rows,
        reward=verified_reward(_golds(request), verifier),
        source_of=_path_source(request, stack),
        plan=ppo.Plan(
            params=params.ppo,
            group_size=params.group_size,
            updates=params.updates_per_rollout,
            entropy_coef=params.entropy_coef,
            lora=params.lora,
        ),
    )
    return _online_phases(request, make_trainer)


def _golds(request: TrainingRequest) -> Mapping[str, Gold]:
    return {problem.id: problem.gold for problem in request.problems}


def _online_phases(request: TrainingRequest, make_trainer: MakeTrainer) -> list[Phase]:
    params = request.params
    warm = params.warm_start_steps > 0 and len(request.warm_start_rows) > 0
    online = Phase(
        name=params.method.value, schedule=_over_drawn_paths(params), make_trainer=make_trainer
    )
    return [*([_warm_start(request)] if warm else []), online]


def _warm_start(request: TrainingRequest) -> Phase:
    params = request.params
    schedule = replace(
        _over_stored_rows(params),
        steps=params.warm_start_steps,
        lr=params.warm_start_lr,
        batch_size=params.warm_start_batch_size,
        micro_batch_size=_micro(params, params.warm_start_batch_size),
    )
    make_trainer = sft.trainer_maker(request.warm_start_rows, lora=params.lora)
    return Phase(name="warm-start", schedule=schedule, make_trainer=make_trainer)


def _over_drawn_paths(params: TrainParams) -> Schedule:
    paths_a_step = params.batch_size * params.group_size
    return replace(
        _over_stored_rows(params),
        batch_size=paths_a_step,
        micro_batch_size=_micro(params, paths_a_step),
        shape="constant_with_warmup",
        # The paths of a draw are in no checkpoint, so one is made only where the next draw begins.
        checkpoint_every=_next_multiple(params.checkpoint_every, of=params.updates_per_rollout),
    )


def _next_multiple(number: int, *, of: int) -> int:
    return -(-number // of) * of


def _rollouts(request: TrainingRequest, stack: ExitStack) -> Rollouts:
    source_of = _path_source(request, stack)
    return Rollouts(
        group_size=request.params.group_size,
        max_new_tokens=request.max_new_tokens,
        updates=request.params.updates_per_rollout,
        opened_on=lambda policy: rollout_func(source_of(policy)),
        elsewhere=request.params.rollouts == "endpoint",
    )


def _path_source(request: TrainingRequest, stack: ExitStack) -> Callable[[str], PathSource]:
    decoding = Decoding(max_new_tokens=request.max_new_tokens)
    if request.params.rollouts == "in_process":
        live = LiveRollouts(decoding=decoding, seed=request.seed)
        return lambda _policy: live
    work = work_folder(request.output, request.key)

    def opened_on(source: str) -> EndpointRollouts:
        engine = stack.enter_context(
            serving_engine(
                request.serve,
                model=source,
                log_folder=work,
                lora=True,
                max_lora_rank=request.params.lora.rank,
            )
        )
        return EndpointRollouts(
            engine=engine,
            model_at=lambda endpoint: connect(endpoint, request.serve, model=source),
            folder=work / "adapters",
            decoding=decoding,
            seed=request.seed,
        )

    return opened_on


def _over_stored_rows(params: TrainParams) -> Schedule:
    return Schedule(
        steps=params.steps,
        lr=params.lr,
        batch_size=params.batch_size,
        micro_batch_size=_micro(params, params.batch_size),
        shape="cosine",
        warmup_fraction=params.warmup_fraction,
        checkpoint_every=params.checkpoint_every,
    )


def _micro(params: TrainParams, batch_size: int) -> int:
    return min(params.micro_batch_size or batch_size, batch_size)


TRAINERS: Mapping[Method, PhasesOf] = {
    Method.SFT: _sft_phases,
    Method.DPO: _dpo_phases,
    Method.GRPO: _grpo_phases,
    Method.RLOO: _rloo_phases,
    Method.PPO: _ppo_phases,
}
"""The phases of each method."""
