"""The control: the base policy trained on worked solutions alone, for as many tokens as the loop."""

from dataclasses import asdict

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.problems.worked import read_worked
from pipeline_lib.records import Problem
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.checkpoints import work_folder
from pipeline_lib.store.keys import stage_key
from pipeline_lib.systems.loop.context import prompt_lengths
from pipeline_lib.systems.loop.training_steps import record_steps
from pipeline_lib.systems.stage import Run
from pipeline_lib.train.control import ControlRequest, train_control
from pipeline_lib.train.phases import Schedule, TrainContext
from pipeline_lib.train.token_budget import Tokens, plan_tokens
from pipeline_lib.train.tracking.trackers import Trackers
from pipeline_lib.train.weights import policies


def control(run: Run) -> None:
    """Train the control, unless it exists or is disabled; an interrupted training is resumed."""
    workspace, bootstrap, train = run.workspace, run.params.bootstrap, run.params.train
    if not train.control:
        # An output in dvc.yaml, with or without a control.
        workspace.control.mkdir(parents=True, exist_ok=True)
        return
    # A given model was trained on none of these problems, so all that have a solution are used.
    problems = workspace.problems("bootstrap" if bootstrap.model is None else "train")
    budget, schedule, seed = _plan_budget(run).cost, _make_schedule(train), run.params.seed
    key = stage_key(
        __name__,
        params={
            "schedule": asdict(schedule),
            "lora": train.lora.model_dump(),
            "threads": train.threads,
            "base_is_given": bootstrap.model is not None,
            "validation_fraction": bootstrap.validation_fraction,
            "budget": budget,
            "seed": seed,
        },
        inputs={
            "base": model_identity(str(workspace.base)),
            "problems": manifests.read_manifest(problems).digest,
        },
    )
    if manifests.current(workspace.control, kind=policies.KIND, key=key):
        return
    trackers = Trackers.of(run.params.execution, workspace.trackers("control"))
    trackers.check()
    with record_steps(run.root, "control", key=key) as progress:
        train_control(
            ControlRequest(
                base=workspace.base,
                base_is_given=bootstrap.model is not None,
                output=workspace.control,
                worked=read_worked(
                    problems, validation_fraction=bootstrap.validation_fraction, seed=seed
                ),
                budget_tokens=budget,
                schedule=schedule,
                lora=train.lora,
                context=TrainContext(
                    work=work_folder(workspace.control, key),
                    key=key,
                    seed=seed,
                    threads=train.threads,
                    sharding=train.sharding,
                    progress=progress,
                    trackers=trackers,
                ),
            )
        )


def _plan_budget(run: Run) -> Tokens:
    """Tokens of the loop, if all its rounds draw as many as the first."""
    counts = manifests.read_manifest(run.workspace.round_folders(1).paths).counts
    prompt, drawn = counts["prompt_tokens"], counts["completion_tokens"]
    if run.params.sample.shots:
        # Training rows have no shots, and an engine computes the shots of a draw once.
        rows = shards.iter_table(run.workspace.problems("train"))
        lengths = prompt_lengths(map(Problem.from_row, rows), run.workspace.base)
        prompt = sum(tokens for _, tokens in lengths)
    cost = run.params.sample.server.relative_cost
    a_round = Tokens(drawn=int((prompt + drawn) * cost)) + plan_tokens(
        run.params.train,
        prompt_tokens=prompt / counts["requests"],
        path_tokens=drawn / counts["rows"],
    )
    return sum([a_round] * run.params.rounds, Tokens())


def _make_schedule(params: TrainParams) -> Schedule:
    """Learning rate and batch of the loop's SFT steps; the number of steps follows from the budget."""
    supervised = params.method is Method.SFT
    batch_size = params.batch_size if supervised else params.warm_start_batch_size
    return Schedule(
        steps=0,
        lr=params.lr if supervised else params.warm_start_lr,
        batch_size=batch_size,
        micro_batch_size=params.micro_batch_size and min(params.micro_batch_size, batch_size),
        shape="cosine",
        warmup_fraction=params.warmup_fraction,
        checkpoint_every=params.checkpoint_every,
        gradient_checkpointing=params.gradient_checkpointing,
    )
