"""Stages of one process whose files come from Kafka topics, and go to another, as they are sealed."""

import itertools
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, closing, nullcontext

from prefect import flow

from flows.parallel.draws import verify_arriving
from flows.parallel.stages import StageRunner
from flows.ray.runners import cluster, task_runner
from flows.run.guard import run_guard
from flows.run.watch import watched
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.publish.mirror import Inbox, Outbox, run_name, seal_name
from pipeline_lib.publish.streams import Cluster, Sender
from pipeline_lib.systems.stage import Run, Stage, System

POLL_S = 1.0
"""Seconds between two looks for sealed shards, and for the brokers."""


def run_streamed(
    system: System,
    names: Collection[str],
    run: Run,
    brokers: Cluster,
    *,
    sources: Sequence[str],
    target: str | None,
) -> None:
    """Run the stages ``names``; what they read of others comes from ``sources``, and all goes to ``target``.

    Raises:
        BadInputError: a topic is missing, or holds files of another run.
        ReasonloopError: the brokers do not answer.
    """
    stages = [stage for stage in system.stages if stage.name in names]
    others = [stage for stage in system.stages if sources and stage.name not in names]
    read = {s.name: [o for o in others if {*o.outputs} & {*s.inputs}] for s in stages}
    every = itertools.chain(*read.values())
    wanted = {path for one in every for path in (seal_name(one.name), *one.outputs)}
    label, execution = run_name(run.params), run.params.execution
    sender = brokers.sender(*sources, *filter(None, [target]))

    # What knows the brokers is no parameter: Prefect would record it.
    @flow(name="stream", flow_run_name=f"stream-{'-'.join(names)}")
    def stream(run: Run) -> None:
        with run_guard(system, run), closing(brokers.reader(*sources)) as reader:
            inbox = Inbox(run.root, reader, wanted, run=label)
            outbox = Outbox(run.root, sender, target, run=label) if target else None
            for stage in stages:
                with ExitStack() as watching:
                    problem = _problem(sender, outbox, stage)
                    watching.enter_context(watched(problem, poll_s=POLL_S))
                    awaited = {one.name for one in read[stage.name]}
                    follows = stage.name == "verify" and "sample" in awaited
                    for name in awaited - ({"sample"} if follows else set()):
                        inbox.wait(run.root / seal_name(name))
                    if follows:
                        verify_arriving(run, inbox.wait)
                    else:
                        if outbox is None:
                            watching.close()  # the brokers are not needed any more
                        StageRunner(system, run).do_alone(stage.name)
                    if outbox is not None:
                        outbox.send_stage(stage.name, stage.outputs)

    fans_out = any(stage.is_fanned_out(run.params) for stage in stages)
    with cluster(execution, run.root) if fans_out else nullcontext():
        runner = task_runner(execution) if fans_out else stream.task_runner
        stream.with_options(task_runner=runner)(run)


def _problem(sender: Sender, outbox: Outbox | None, stage: Stage) -> Callable[[], str | None]:
    """A function to poll: sends sealed shards; a message if that fails, or no broker answers."""

    def problem() -> str | None:
        try:
            sender.require_broker()
            if outbox is not None:
                outbox.send_shards(stage.outputs)
        except (ReasonloopError, OSError) as error:
            return str(error)
        return None

    return problem
