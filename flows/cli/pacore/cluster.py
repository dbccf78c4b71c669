"""`reasonloop pacore master` and `worker`, a cluster whose workers draw, and the engine of commands that may use it."""

import pathlib
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Event
from types import MappingProxyType
from typing import Annotated

from cyclopts import Parameter
from typing_extensions import override

from flows.cli.options import (
    AT_LEAST_ZERO,
    DEFAULT_PARAMS,
    DEFAULT_RUN,
    PORT,
    EngineOption,
    Model,
    ParamsOptions,
)
from flows.cli.pacore.queue import joined, load_handed
from flows.cli.serving import exit_on_sigterm
from flows.ray.pacore_master import Master, running_head, running_node
from flows.ray.rejoin import serve_and_rejoin
from flows.run.terminal import say
from flows.server.server import LOOPBACK
from pipeline_lib.engines.chat_model import ChatModel
from pipeline_lib.engines.known.table import check_installed
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.pacore import Final
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.pacore.worker_pool import WorkerPool, open_pool

_PORT = 6400
_POLL_S = 0.5
_NODE_ID = re.compile(r"[\w.-]+")

Workspace = Annotated[pathlib.Path, Parameter(help="Logs are written to logs/ in this folder.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AnswerOptions(ParamsOptions):
    """Options for what draws and how the answer follows, and the params."""

    engine: EngineOption = None
    final: Annotated[
        Final | None,
        Parameter(
            help="The answer after the rounds: one more call that sees the last round, or a vote of its paths; "
            "default: pacore.final of the params file."
        ),
    ] = None

    @override
    def load(self, given: Mapping[str, object] = MappingProxyType({})) -> Params:
        """As `ParamsOptions.load`, with these options."""
        return super().load({"serve.engine": self.engine, "pacore.final": self.final, **given})


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Options for the workers of a cluster."""

    master: Annotated[
        str | None,
        Parameter(
            help="HOST:PORT of `pacore master`: its workers of MODEL, named as for `pacore worker`, draw."
        ),
    ] = None
    others: Annotated[
        tuple[str, ...],
        Parameter(
            name="--with",
            negative="",
            help="A further model of the workers; the models draw the paths of each round in turn, and "
            "MODEL synthesizes. Repeatable.",
        ),
    ] = ()

    def check(self, *, engine: str | None) -> None:
        """Raise BadInputError if the options do not fit together, or to the option ``engine``."""
        if self.master is None and self.others:
            raise BadInputError(f"--with {self.others[0]}: needs --master")
        if self.master is not None and engine is not None:
            raise BadInputError(
                f"--engine {engine}: the workers have engines of their own; leave out --master or this"
            )


DEFAULT_WORKERS = WorkerOptions()
DEFAULT_ANSWER = AnswerOptions()


@contextmanager
def opened_engine(
    model: str, params: Params, workers: WorkerOptions, *, log_folder: pathlib.Path
) -> Iterator[ChatModel]:
    """The engine of the params, or a pool of workers, whose calls are reported at the end."""
    if workers.master is None:
        batch_size = params.pacore.batch_size
        with started_engine(
            model, params.serve, log_folder=log_folder, batch_size=batch_size
        ) as engine:
            yield engine
        return
    with worker_pool(model, params, workers) as pool:
        yield pool
        _report(pool)


@contextmanager
def worker_pool(model: str, params: Params, workers: WorkerOptions) -> Iterator[WorkerPool]:
    """The workers of ``workers.master``, which is given; BadInputError if there is no such master or worker."""
    assert workers.master is not None
    with joined(workers.master) as master:
        from flows.ray.workers import find_workers  # noqa: PLC0415 - it imports Ray

        yield open_pool(
            find_workers,
            [model, *workers.others],
            place=f"--master {master.address}",
            patience_s=params.serve.start_timeout_s,
        )


def _report(pool: WorkerPool) -> None:
    counts = sorted(pool.calls_by_worker.items())
    shown = ", ".join(f"{calls} by {node_id}" for node_id, calls in counts)
    say(f"calls of workers: {shown or 'none'}; {pool.lost_calls} lost and sent again")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkerPlace:
    """Options for the place of a worker."""

    master: Annotated[str, Parameter(help="HOST:PORT of `pacore master`.")]
    node_id: Annotated[str, Parameter(help="Name of this worker, its own in the cluster.")]
    node_ip: Annotated[
        str | None,
        Parameter(
            help="Address of this machine for a Ray node of its own; default: the master's node if that is on "
            "this machine, else the address that reaches the master."
        ),
    ] = None
    rejoin_s: Annotated[
        float,
        Parameter(
            help="Seconds in which a master that has ended may be back; the worker then joins it again. 0: end with it.",
            validator=AT_LEAST_ZERO,
        ),
    ] = 300.0

    def load(self) -> Master:
        """The master, which answers; BadInputError if it does not, or an option cannot be used."""
        if not _NODE_ID.fullmatch(self.node_id):
            raise BadInputError(f"--node-id {self.node_id}: give letters, digits, '.', '_' and '-'")
        found = Master.parse(self.master)
        if self.node_ip is not None and found.host == LOOPBACK:
            raise BadInputError(
                f"--node-ip {self.node_ip}: the master at {found.address} is reached from its own machine alone; "
                "start it with --host"
            )
        found.check()
        found.use_variables()
        return found

    @contextmanager
    def node(self, master: Master, log: pathlib.Path) -> Iterator[str | None]:
        """The temporary folder of a node for the worker; None for the master's node."""
        if self.node_ip is None and master.is_here:
            yield None
            return
        with running_node(master, ip=self.node_ip, log=log) as node:
            yield node.scratch


def master(
    *,
    port: Annotated[int, Parameter(help="Port of the cluster.", validator=PORT)] = _PORT,
    host: Annotated[
        str, Parameter(help="Address of this machine on which workers of other machines reach it.")
    ] = LOOPBACK,
    workspace: Workspace = DEFAULT_RUN.workspace,
    folder: Annotated[
        pathlib.Path | None,
        Parameter(
            help="Folder of the batches handed over; default: pacore-queue in the workspace."
        ),
    ] = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Start a cluster for workers and a queue of batches, until Ctrl-C or SIGTERM.

    A master that is started again on the folder continues with its batches, and workers join it again. Params that
    are given hold for workers and batches that name no params file of their own.

    **Examples:**

        reasonloop pacore master --port 6400
        reasonloop pacore master --port 6400 --folder /data/batches --set pacore.widths=[16]
        reasonloop pacore master --port 6400 --host 10.0.0.5
    """
    place = Master(host=host, port=port)
    handed = None if params == DEFAULT_PARAMS else params.load()
    exit_on_sigterm()
    place.use_variables()
    with running_head(place, log_folder=workspace.resolve() / "logs") as head, ExitStack() as stack:
        from flows.ray.question_queue import start_queue  # noqa: PLC0415 - it imports Ray
        from flows.ray.workers import connected  # noqa: PLC0415 - it imports Ray

        stack.enter_context(connected(place))
        start_queue((folder or workspace / "pacore-queue").resolve(), handed)
        say(f"master:  {place.address}")
        say(f"worker:  reasonloop pacore worker MODEL --master {place.address} --node-id 1")
        say(
            "batch:   reasonloop pacore batch MODEL questions.jsonl --output answers.jsonl "
            f"--master {place.address}"
        )
        say("serving; Ctrl-C stops it")
        while head.exit_code is None:
            time.sleep(_POLL_S)
        raise ReasonloopError(f"Ray {head.exit_summary}")


def worker(
    model: Model,
    /,
    *,
    place: WorkerPlace,
    engine: EngineOption = None,
    workspace: Workspace = DEFAULT_RUN.workspace,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Draw calls of solve, batch and serve with `--master`, until Ctrl-C or SIGTERM.

    A signal lets calls in flight end, then the worker leaves; a second Ctrl-C ends it at once.

    **Examples:**

        reasonloop pacore worker models/smollm2 --master 127.0.0.1:6400 --node-id 1
        reasonloop pacore worker NAME --master 10.0.0.5:6400 --node-id 2 --engine vllm
        reasonloop pacore worker NAME --master 10.0.0.5:6400 --node-id 3 --engine url --set serve.url=URL
    """
    cluster = place.load()
    exit_on_sigterm()
    serve = partial(_work, model, place, engine, workspace.resolve() / "logs", params)
    serve_and_rejoin(serve, cluster, patience_s=place.rejoin_s)


def _work(
    model: str,
    place: WorkerPlace,
    engine: str | None,
    log_folder: pathlib.Path,
    params: ParamsOptions,
    served: Event,
) -> None:
    """Join the master and draw, in a process of its own."""
    cluster = place.load()
    exit_on_sigterm()
    from flows.ray.workers import connected, serving_worker  # noqa: PLC0415 - it imports Ray

    with (
        place.node(cluster, log_folder / f"ray-{place.node_id}.log") as folder,
        connected(cluster, node_folder=folder),
    ):
        loaded = load_handed(params, {"serve.engine": engine})
        check_installed(loaded.serve)
        with serving_worker(
            place.node_id,
            model,
            loaded.serve,
            log_folder=log_folder,
            batch_size=loaded.pacore.batch_size,
        ) as wait:
            say(f"worker {place.node_id} of {cluster.address} draws with {model}; Ctrl-C stops it")
            served.set()
            while True:
                wait()
