"""`reasonloop stream`: verification, and stages of a run, over Kafka topics."""

import pathlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli.options import (
    DEFAULT_PARAMS,
    DEFAULT_RUN,
    ParamsOptions,
    RunOptions,
    StageName,
    Workers,
)
from flows.cli.orchestrated import orchestrated
from flows.run.terminal import say
from pipeline_lib.errors import BadInputError, needs_extra
from pipeline_lib.systems.table import STAGES, SYSTEM_OF

if TYPE_CHECKING:
    from pipeline_lib.publish.streams import Cluster

GROUP = "reasonloop-verify"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class KafkaOptions:
    """Options for the cluster."""

    brokers: Annotated[str, Parameter(help="HOST:PORT of a broker; several joined by commas.")]
    config: Annotated[
        pathlib.Path | None,
        Parameter(help="Properties file with settings of librdkafka, such as security.protocol."),
    ] = None

    def cluster(self) -> "Cluster":
        """The cluster; BadInputError: confluent-kafka is not installed, or the file cannot be used."""
        with needs_extra("kafka", "Kafka"):
            from pipeline_lib.publish.streams import Cluster, read_settings  # noqa: PLC0415 - an optional package
        return Cluster(
            brokers=self.brokers, settings=read_settings(self.config) if self.config else {}
        )


def verify(
    *,
    kafka: KafkaOptions,
    source: Annotated[str, Parameter(name="--from", help="Topic of answers to judge.")],
    target: Annotated[str, Parameter(name="--to", help="Topic for their verdicts.")],
    group: Annotated[str, Parameter(help="Consumer group; its members share the topic.")] = GROUP,
    workers: Workers = 2,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Judge the answers of a Kafka topic, one verdict per answer, until SIGTERM or Ctrl-C.

    Messages are lines of `reasonloop verify`, verdicts are its output without `seconds` (a header);
    their keys are ids. An offset is committed when its verdict is acknowledged: none is lost, and a
    repeated one is equal. What cannot be judged goes to `FROM.refused` with the reason in a header.

    **Example:**

        reasonloop stream verify --brokers localhost:9092 --from answers --to verdicts
    """
    cluster = kafka.cluster()
    from pipeline_lib.publish.streams import verify_stream  # noqa: PLC0415 - an optional package
    from pipeline_lib.verify.dispatch import open_verifier  # noqa: PLC0415 - numpy takes a while

    loaded = params.load()
    stopped = _stop_on_signals()
    say(f"{source} -> {target}; SIGTERM or Ctrl-C stops it")
    with open_verifier(loaded.verify, workers=workers) as verifier:
        judged, refused = verify_stream(
            cluster, source, target, verifier, group=group, stopped=stopped
        )
    say(f"{judged} judged, {refused} refused")


def stage(
    *names: Annotated[StageName, Parameter(help="Stages of one system.")],
    kafka: KafkaOptions,
    source: Annotated[
        tuple[str, ...],
        Parameter(
            name="--from", negative="", help="Topic of files that the stages read; repeatable."
        ),
    ] = (),
    target: Annotated[str | None, Parameter(name="--to", help="Topic for what they write.")] = None,
    options: RunOptions = DEFAULT_RUN,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Run stages of one system, with the files of other stages from topics, and their own to a topic.

    Sealed shards are sent as they are made, and `verify` judges each as it comes. The same command resumes.

    **Examples:**

        reasonloop stream stage prepare bootstrap sample --workspace a --brokers localhost:9092 --to paths
        reasonloop stream stage verify --workspace b --brokers localhost:9092 --from paths --to verdicts
        reasonloop stream stage build train --workspace c --brokers localhost:9092 --from paths --from verdicts
    """
    systems = {SYSTEM_OF[name].name: SYSTEM_OF[name] for name in names}
    if len(systems) != 1:
        raise BadInputError(f"stages {', '.join(names) or 'none'}: give stages of one system")
    [system], cluster = systems.values(), kafka.cluster()
    loaded, root = params.load(options.given), options.workspace.resolve()
    draws = any(STAGES[name].draws for name in names)
    with orchestrated(system, root, loaded, draws=draws) as run:
        from flows.platform.streaming import run_streamed  # noqa: PLC0415 - see `orchestrated`

        run_streamed(system, names, run, cluster, sources=source, target=target)


def _stop_on_signals() -> Callable[[], bool]:
    """A function that is true after the first SIGTERM or SIGINT; the next one ends the process."""
    came = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal came
        came = True
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    return lambda: came
