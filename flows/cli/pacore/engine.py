"""The engine of `pacore solve`, `batch` and `serve`: one that is started for the command, or the workers of a cluster."""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from flows.ray.pacore_master import Master
from flows.run.terminal import say
from pipeline_lib.engines.chat_model import ChatModel
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.pacore.worker_pool import WorkerPool, open_pool


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
    master = Master.parse(workers.master)
    master.check()
    master.use_variables()
    from flows.ray.workers import connected, find_workers  # noqa: PLC0415 - it imports Ray

    with connected(master):
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
