"""`reasonloop stream`: verification over Kafka topics, and a run's records on them."""

import pathlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli.options import DEFAULT_PARAMS, ParamsOptions, Workers
from flows.cli.progress import progress_bar
from flows.run.terminal import say
from pipeline_lib.errors import BadInputError
from pipeline_lib.store.workspace import Workspace

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
        try:
            from pipeline_lib.publish.streams import Cluster, read_settings  # noqa: PLC0415 - an optional package
        except ModuleNotFoundError as error:
            raise BadInputError(
                f"{error.name} is not installed, and Kafka needs it; "
                "run `pip install 'reasonloop[kafka]'`"
            ) from error
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


def publish(
    workspace: Annotated[pathlib.Path, Parameter(help="Folder of the run.")],
    /,
    *,
    kafka: KafkaOptions,
    to: Annotated[str, Parameter(help="Paths go to topic TO.paths, verdicts to TO.verdicts.")],
) -> None:
    """Send the sealed paths and verdicts of a run to Kafka, shard by shard.

    A path is a line that `reasonloop stream verify` judges. Keys are ids, DRAW/PROBLEM#INDEX; headers
    give draw and shard.

    **Example:**

        reasonloop stream publish /tmp/trial --brokers localhost:9092 --to trial
    """
    cluster = kafka.cluster()
    from pipeline_lib.publish.streams import publish_run  # noqa: PLC0415 - an optional package

    topics = (f"{to}.paths", f"{to}.verdicts")
    sender = cluster.sender(*topics)
    with progress_bar("publish") as moved:
        paths, verdicts = publish_run(Workspace(workspace.resolve()), sender, *topics, moved)
    say(f"{paths} paths to {topics[0]}, {verdicts} verdicts to {topics[1]}")


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
