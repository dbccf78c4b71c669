"""N paths per problem, then a verdict for each: fanned out by shards, resumed by shards."""

import pathlib
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from prefect import flow
from pydantic import BaseModel, ConfigDict

from flows.runners import RunSettings, map_bounded, shards_in_flight, task_runner
from pipeline_lib.params.paths import SampleParams
from pipeline_lib.storage.workspace import RoundFolders
from pipeline_lib.telemetry import timed_stage
from tasks.sampling import SamplePlan, SampleShard, plan_sampling, sample_shard, seal_paths
from tasks.serving import endpoint_for
from tasks.verification import VerifyShard, seal_verdicts, verify_shard

Part = Literal["sample", "verify"]
BOTH: tuple[Part, Part] = ("sample", "verify")


class Draw(BaseModel):
    """What is drawn: by which policy, for which problems, into which folders."""

    model_config = ConfigDict(frozen=True)

    name: str
    """"round-1", "evaluate-base", ...: the subflow's name."""
    seed_name: str
    """Names the seeds; base and trained policy are evaluated with the same ones."""
    problems: pathlib.Path
    policy: pathlib.Path
    folders: RoundFolders
    params: SampleParams
    within: str | None = None
    """The stage that both parts belong to, timed by its own flow; None: each is a stage itself."""

    def stage(self, part: Part) -> str:
        """The stage under which the work of a part is booked."""
        return self.within or part


@flow(name="sample-and-verify", flow_run_name="sample-and-verify-{draw.name}")
def sample_and_verify(settings: RunSettings, draw: Draw, parts: tuple[Part, ...] = BOTH) -> None:
    """Both parts, or one of them when a stage is run alone."""
    shards = plan_sampling(_plan(settings, draw))
    in_flight = shards_in_flight(settings.params.execution)
    if "sample" in parts:
        with (
            _timed(settings, draw, "sample"),
            endpoint_for(
                settings.params.serve,
                settings.root,
                model=str(draw.policy),
                wanted=not all(shard.done for shard in shards),
            ) as endpoint,
        ):
            to_draw = [shard.at(endpoint) for shard in shards]
            seal_paths(map_bounded(sample_shard, to_draw, in_flight=in_flight))
    if "verify" in parts:
        with _timed(settings, draw, "verify"):
            to_verify = _to_verify(settings, draw, shards)
            seal_verdicts(map_bounded(verify_shard, to_verify, in_flight=in_flight))


def run_draw(settings: RunSettings, draw: Draw, parts: tuple[Part, ...] = BOTH) -> None:
    """Run the subflow on the runner that the params ask for."""
    runner = task_runner(settings.params.execution)
    sample_and_verify.with_options(task_runner=runner)(settings, draw, parts)


def _label(draw: Draw, part: Part) -> str:
    """What the progress bar of a part says."""
    return f"{part} {draw.name}"


def _timed(settings: RunSettings, draw: Draw, part: Part) -> AbstractContextManager[None]:
    return nullcontext() if draw.within else timed_stage(settings.root, part, draw=draw.name)


def _plan(settings: RunSettings, draw: Draw) -> SamplePlan:
    return SamplePlan(
        workspace=settings.root,
        stage=draw.stage("sample"),
        label=_label(draw, "sample"),
        draw=draw.seed_name,
        problems=draw.problems,
        output=draw.folders.paths,
        model=str(draw.policy),
        params=draw.params,
        serve=settings.params.serve,
        seed=settings.params.seed,
    )


def _to_verify(settings: RunSettings, draw: Draw, shards: list[SampleShard]) -> list[VerifyShard]:
    return [
        VerifyShard(
            workspace=settings.root,
            stage=draw.stage("verify"),
            label=_label(draw, "verify"),
            problems=draw.problems,
            paths=draw.folders.paths,
            output=draw.folders.verdicts,
            params=settings.params.verify,
            index=shard.index,
            num_shards=len(shards),
        )
        for shard in shards
    ]
