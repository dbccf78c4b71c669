"""N paths per problem and a verdict per path; fanned out and resumed by shards."""

import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

from prefect import Flow, flow
from prefect.futures import PrefectFuture

from flows.parallel.fan_out import Chain, map_bounded
from flows.ray.runners import asking_for, shards_in_flight, task_runner
from pipeline_lib.store.manifests import MANIFEST_NAME
from pipeline_lib.store.shards import shard_name
from pipeline_lib.systems.loop.draw import Draw, Shard, round_draw
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import timed_stage
from tasks.loop import (
    plan_sampling,
    plan_verification,
    sample_shard,
    seal_paths,
    seal_verdicts,
    verify_shard,
)
from tasks.serving import draws_in_workers, endpoint_for

DrawAll = Callable[[Iterable[Shard[Draw]]], list[Shard[Draw]]]
Arrive = Callable[[pathlib.Path], None]
"""Returns once a file of paths that come from elsewhere is there."""


@flow(name="sample", flow_run_name="sample-{draw.name}", validate_parameters=False)
def sample(draw: Draw) -> None:
    """Draw the paths of all shards."""
    in_flight = shards_in_flight(draw.run.params.execution)
    with _asking_to_sample(draw):
        drawn = _drawn(draw, partial(map_bounded, sample_shard, in_flight=in_flight))
    seal_paths(drawn)


@flow(name="verify", flow_run_name="verify-{draw.name}", validate_parameters=False)
def verify(draw: Draw, arrive: Arrive | None = None) -> None:
    """Judge the paths of all shards, with ``arrive`` each as it comes."""
    shards: Iterable[Shard[Draw]] = plan_verification(draw, sealed=arrive is None)
    if arrive is not None:
        shards = _arriving(shards, draw.folders.paths, arrive)
    execution = draw.run.params.execution
    in_flight = shards_in_flight(execution)
    with asking_for(execution, "verify"):
        judged = map_bounded(verify_shard, shards, in_flight=in_flight)
    seal_verdicts(judged)


def _arriving(
    shards: Iterable[Shard[Draw]], table: pathlib.Path, arrive: Arrive
) -> Iterator[Shard[Draw]]:
    for shard in shards:
        arrive((table / shard_name(shard.index)).with_suffix(f".{MANIFEST_NAME}"))
        yield shard
    arrive(table / MANIFEST_NAME)


@flow(
    name="sample-and-verify",
    flow_run_name="sample-and-verify-{draw.name}",
    validate_parameters=False,
)
def _sample_and_verify(draw: Draw) -> None:
    """Draw the paths of all shards, and judge the paths of each shard as soon as they are written."""
    execution = draw.run.params.execution

    def submit_sampling(shard: Shard[Draw]) -> PrefectFuture[Shard[Draw]]:
        with _asking_to_sample(draw):
            return sample_shard.submit(shard)

    def submit_verification(shard: Shard[Draw]) -> PrefectFuture[Shard[Draw]]:
        with asking_for(execution, "verify"):
            return verify_shard.submit(shard)

    chain = Chain(submit_sampling, submit_verification, in_flight=shards_in_flight(execution))
    with _timed(draw, "verify"):
        with _timed(draw, "sample"):
            seal_paths(_drawn(draw, chain.first_results))
        seal_verdicts(chain.second_results())


def sample_and_verify(draw: Draw) -> None:
    """Draw and judge, on the runner of the params; the result equals `sample`, then `verify`."""
    execution = draw.run.params.execution
    # While a server draws, the tasks of sampling only wait, beside a full set of verifiers.
    waiting = 0 if draws_in_workers(draw.serve) else execution.workers
    runner = task_runner(execution, waiting=waiting)
    _sample_and_verify.with_options(task_runner=runner)(draw)


def draw_each(draws: Iterable[Draw]) -> None:
    """Draw and judge one after another; consecutive draws of one model share its server."""
    for model, together in itertools.groupby(draws, key=lambda draw: draw.model):
        own = [*together]
        run = own[0].run
        started = not (draws_in_workers(own[0].serve) or own[0].sample.drawn_by_server)
        several = len(own) > 1 and started
        wanted = several and not all(shard.done for draw in own for shard in plan_sampling(draw))
        in_ray = run.params.execution.runner == "ray"
        with endpoint_for(
            own[0].serve, run.root, model=model, wanted=wanted, in_ray=in_ray
        ) as endpoint:
            for draw in own:
                sample_and_verify(replace(draw, endpoint=endpoint))


def sample_and_verify_round(run: Run) -> None:
    """Stages `sample` and `verify` in the round of ``run``."""
    sample_and_verify(round_draw(run))


def sample_round(run: Run) -> None:
    """Stage `sample` in the round of ``run``."""
    _do_round(sample, run)


def verify_round(run: Run) -> None:
    """Stage `verify` in the round of ``run``."""
    _do_round(verify, run)


def verify_arriving(run: Run, arrive: Arrive) -> None:
    """Stage `verify` while the paths come, each shard after ``arrive`` of its manifest."""
    _do_round(verify, run, arrive)


def _do_round(stage: Flow[..., None], run: Run, *options: object) -> None:
    with timed_stage(run.root, stage.name, draw=f"round-{run.round_number}"):
        done_here = stage.with_options(task_runner=task_runner(run.params.execution))
        done_here(round_draw(run), *options)


def _drawn(draw: Draw, draw_all: DrawAll) -> list[Shard[Draw]]:
    """All shards, drawn by ``draw_all`` while the engine is up, which the draw may have already."""
    shards = plan_sampling(draw)
    if draw.endpoint is not None:
        return draw_all(shards)
    with endpoint_for(
        shards[0].draw.serve,
        draw.run.root,
        model=draw.model,
        wanted=not all(shard.done for shard in shards),
        in_ray=draw.run.params.execution.runner == "ray",
    ) as endpoint:
        return draw_all([shard.at(endpoint) for shard in shards])


def _asking_to_sample(draw: Draw) -> AbstractContextManager[None]:
    """Tasks of sampling draw on a device of their own, or wait for a server."""
    draws = draws_in_workers(draw.serve)
    return asking_for(draw.run.params.execution, "sample", uses_gpu=draws, waits=not draws)


def _timed(draw: Draw, stage: str) -> AbstractContextManager[None]:
    return nullcontext() if draw.stage else timed_stage(draw.run.root, stage, draw=draw.name)
