"""N paths per problem and a verdict per path; fanned out and resumed by shards."""

import pathlib

from prefect import flow
from pydantic import BaseModel, ConfigDict

from flows.runners import map_bounded, shards_in_flight, task_runner
from pipeline_lib.loop.sample import SamplePlan
from pipeline_lib.loop.verify import VerifyPlan
from pipeline_lib.params.paths import SampleParams
from pipeline_lib.stages.stage import Run
from pipeline_lib.storage.workspace import RoundFolders
from pipeline_lib.telemetry import timed_stage
from tasks.sampling import plan_sampling, sample_shard, seal_paths
from tasks.serving import endpoint_for
from tasks.verification import plan_verification, seal_verdicts, verify_shard


class Draw(BaseModel):
    """A policy that draws paths for problems into folders."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Name in the subflows: "round-1", "evaluate-base", ..."""
    seed_name: str
    """Names the seeds; all evaluated policies share one."""
    problems: pathlib.Path
    policy: pathlib.Path
    folders: RoundFolders
    params: SampleParams
    stage: str | None = None
    """Stage whose time and events both parts count towards; None: "sample" and "verify"."""


@flow(name="sample", flow_run_name="sample-{draw.name}")
def sample(run: Run, draw: Draw) -> None:
    """Draw the paths of all shards."""
    shards = plan_sampling(_sample_plan(run, draw))
    with endpoint_for(
        run.params.serve,
        run.root,
        model=str(draw.policy),
        wanted=not all(shard.done for shard in shards),
    ) as endpoint:
        to_draw = [shard.at(endpoint) for shard in shards]
        in_flight = shards_in_flight(run.params.execution)
        seal_paths(map_bounded(sample_shard, to_draw, in_flight=in_flight))


@flow(name="verify", flow_run_name="verify-{draw.name}")
def verify(run: Run, draw: Draw) -> None:
    """Judge the paths of all shards."""
    shards = plan_verification(_verify_plan(run, draw))
    in_flight = shards_in_flight(run.params.execution)
    seal_verdicts(map_bounded(verify_shard, shards, in_flight=in_flight))


def sample_and_verify(run: Run, draw: Draw) -> None:
    """Draw and judge, on the runner of the params."""
    runner = task_runner(run.params.execution)
    sample.with_options(task_runner=runner)(run, draw)
    verify.with_options(task_runner=runner)(run, draw)


def sample_round(run: Run) -> None:
    """Stage `sample` in the round of ``run``."""
    runner = task_runner(run.params.execution)
    with timed_stage(run.root, "sample", draw=f"round-{run.round_number}"):
        sample.with_options(task_runner=runner)(run, round_draw(run))


def verify_round(run: Run) -> None:
    """Stage `verify` in the round of ``run``."""
    runner = task_runner(run.params.execution)
    with timed_stage(run.root, "verify", draw=f"round-{run.round_number}"):
        verify.with_options(task_runner=runner)(run, round_draw(run))


def round_draw(run: Run) -> Draw:
    """The draw of a round of the loop."""
    return Draw(
        name=f"round-{run.round_number}",
        seed_name=f"round-{run.round_number}",
        problems=run.workspace.problems("train"),
        policy=run.start,
        folders=run.folders,
        params=run.params.sample,
    )


def _sample_plan(run: Run, draw: Draw) -> SamplePlan:
    return SamplePlan(
        workspace=run.root,
        stage=draw.stage or "sample",
        label=f"sample {draw.name}",
        draw=draw.seed_name,
        problems=draw.problems,
        output=draw.folders.paths,
        model=str(draw.policy),
        params=draw.params,
        serve=run.params.serve,
        seed=run.params.seed,
    )


def _verify_plan(run: Run, draw: Draw) -> VerifyPlan:
    return VerifyPlan(
        workspace=run.root,
        stage=draw.stage or "verify",
        label=f"verify {draw.name}",
        problems=draw.problems,
        paths=draw.folders.paths,
        output=draw.folders.verdicts,
        params=run.params.verify,
    )
