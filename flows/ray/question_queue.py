"""The queue of a PaCoRe master: batches that outlive the command that handed them over, and the master itself.

A detached actor of the cluster works on one batch after the other with the cluster's workers. A batch is a folder below
the master's: its spec, its questions, the journal of finished answers, then the answers and their counts. A
master that is started again on the folder continues; a question that was in flight may be drawn twice, and has one
line.
"""

import json
import logging
import pathlib
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import ray

from flows.ray.workers import find_workers
from flows.run.failures import unwrapped_signals
from pipeline_lib.engines.chat_model import ChatModel
from pipeline_lib.engines.client.connection import EngineDownError
from pipeline_lib.errors import BadInputError, ReasonloopError, reason_of
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import digest_json, read_json, write_json, write_text
from pipeline_lib.store.journal import count_pieces, read_pieces
from pipeline_lib.systems.pacore.batch import SolvedFile, read_questions, solve_file
from pipeline_lib.systems.pacore.worker_pool import WorkerPool, open_pool

_NAME = "pacore-queue"
_POLL_S = 0.5
_RETRY_S = 5.0
_START_S = 60.0
"""Longest time from the start of a master to its queue."""
_SPEC, _QUESTIONS, _ANSWERS, _RESULT = (
    "batch.json",
    "questions.jsonl",
    "answers.jsonl",
    "result.json",
)
_STARTED = "started.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """Progress of a batch."""

    name: str
    models: Sequence[str]
    total: int
    """Questions."""
    answered: int
    drawn_again: int
    """Questions that were begun more than once: their call failed, or the master ended meanwhile."""
    state: str
    """``waiting``, ``finished``, ``failed``, or what the workers of a running one lack."""
    failure: str | None = None
    """Why it failed."""
    is_input: bool = False
    """The failure is bad input of the batch, and no failure of the master."""
    solved: SolvedFile | None = None
    """Of a finished one."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """Answered calls of a finished one by node id, since the last start of the master."""
    lost_calls: int = 0

    @property
    def line(self) -> str:
        """For the terminal."""
        again = f", {self.drawn_again} drawn again" if self.drawn_again else ""
        errors = len(self.solved.errors) if self.solved else 0
        failed = f", {errors} failed" if errors else ""
        return (
            f"{self.name}  {', '.join(self.models)}  {self.answered} of {self.total} answered{failed}{again}  "
            f"{self.failure or self.state}"
        )


class Queue:
    """The actor."""

    def __init__(self, folder: pathlib.Path, params: str | None) -> None:
        """Continue with the batches below ``folder``; ``params`` is JSON for workers and batches without a file."""
        self._folder, self._params = folder, params
        self._running, self._note = "", ""
        self._came = threading.Event()
        threading.Thread(target=self._work, daemon=True).start()

    def params(self) -> str | None:
        """The master's params as JSON; None: it was given none."""
        return self._params

    def submit(self, name: str, models: Sequence[str], params: str, questions: str) -> None:
        """Add a batch; one that is here already is kept, and what failed in it is asked again."""
        folder = self._folder / name
        if (folder / _SPEC).exists():
            found = self._state(name)
            if found.failure or (found.solved and found.solved.errors):
                (folder / _RESULT).unlink()
        else:
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / _QUESTIONS, questions)
            total = len(read_questions(folder / _QUESTIONS))
            spec = {"number": len(self._names()), "models": [*models], "total": total}
            # Last: a batch without it is none.
            write_json(folder / _SPEC, spec | {"params": json.loads(params)})
        self._came.set()

    def states(self) -> list[BatchState]:
        """Of all batches, in their order."""
        return [self._state(name) for name in self._names()]

    def state(self, name: str) -> BatchState:
        """Of one batch. BadInputError: there is none of this name."""
        if not (self._folder / name / _SPEC).exists():
            raise BadInputError(f"{name}: the master has no such batch; `pacore status` lists them")
        return self._state(name)

    def fetch(self, name: str) -> str:
        """The lines of the answers so far, in the order of the questions."""
        folder = self._folder / name
        if self._state(name).solved:
            return (folder / _ANSWERS).read_text("utf-8")
        pieces = read_pieces(folder / f"{_ANSWERS}.partial")
        ids = [question.id for question, _ in read_questions(folder / _QUESTIONS)]
        return "".join(f"{json.dumps(pieces[one])}\n" for one in ids if one in pieces)

    def _names(self) -> list[str]:
        specs = {path.parent.name: read_json(path) for path in self._folder.glob(f"*/{_SPEC}")}
        return sorted(specs, key=lambda name: specs[name]["number"])

    def _state(self, name: str) -> BatchState:
        folder = self._folder / name
        spec, started = read_json(folder / _SPEC), []
        with suppress(FileNotFoundError):
            started = (folder / _STARTED).read_text("utf-8").splitlines()
        common = {
            "name": name,
            "models": spec["models"],
            "total": spec["total"],
            "drawn_again": len(started) - len(set(started)),
        }
        if not (folder / _RESULT).exists():
            state = (self._note or "running") if name == self._running else "waiting"
            answered = count_pieces(folder / f"{_ANSWERS}.partial")
            return BatchState(answered=answered, state=state, **common)
        found = read_json(folder / _RESULT)
        if "failure" in found:
            return BatchState(answered=0, state="failed", **found, **common)
        solved = SolvedFile(**found["solved"])
        return BatchState(
            answered=spec["total"] - len(solved.errors),
            state="finished",
            solved=solved,
            calls=found["calls"],
            lost_calls=found["lost_calls"],
            **common,
        )

    def _work(self) -> None:
        while True:
            self._came.clear()
            for name in self._names():
                if not (self._folder / name / _RESULT).exists():
                    self._running = name
                    self._finish(name)
                    self._running = ""
            self._came.wait()

    def _finish(self, name: str) -> None:
        """Work on a batch until it is finished, or cannot be."""
        folder = self._folder / name
        spec = read_json(folder / _SPEC)
        params = Params.model_validate(spec["params"])
        pools: list[WorkerPool] = []

        @contextmanager
        def opening() -> Iterator[ChatModel]:
            pools.append(self._pool(spec["models"]))
            yield pools[-1]

        def note_start(question: str) -> None:
            with (folder / _STARTED).open("a", encoding="utf-8") as stream:
                stream.write(f"{json.dumps(question)}\n")

        while True:
            try:
                solved = solve_file(
                    folder / _QUESTIONS,
                    folder / _ANSWERS,
                    opening=opening(),
                    params=params,
                    on_start=note_start,
                )
            except EngineDownError as error:
                self._note = str(error)
                time.sleep(_RETRY_S)
            except Exception as error:
                if not isinstance(error, ReasonloopError):  # a bug ends its batch, not the queue
                    logging.getLogger(__name__).exception("batch %s", name)
                is_input = isinstance(error, BadInputError)
                write_json(folder / _RESULT, {"failure": reason_of(error), "is_input": is_input})
                return
            else:
                calls = sum((pool.calls_by_worker for pool in pools), Counter[str]())
                lost = sum(pool.lost_calls for pool in pools)
                counts = {"calls": calls, "lost_calls": lost}
                write_json(folder / _RESULT, {"solved": asdict(solved), **counts})
                return

    def _pool(self, models: Sequence[str]) -> WorkerPool:
        """The workers of the models, once there are some of each; in the block others are awaited for ever."""
        while missing := set(models) - {one.info.model.name for one in find_workers().values()}:
            self._note = f"waiting for a worker of {', '.join(sorted(missing))}"
            time.sleep(_POLL_S)
        self._note = ""
        return open_pool(find_workers, models, place="the queue", patience_s=float("inf"))


def start_queue(folder: pathlib.Path, params: Params | None) -> None:
    """Start the queue of a master on ``folder``; Ray is connected to its cluster."""
    folder.mkdir(parents=True, exist_ok=True)
    options = {"name": _NAME, "lifetime": "detached", "num_cpus": 0, "max_restarts": -1}
    actor: Any = ray.remote(Queue).options(**options)
    _call(actor.remote(folder, params and params.model_dump_json()).params)


def _queue() -> Any:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            return ray.get_actor(_NAME)
        except ValueError as error:
            if time.monotonic() > deadline:
                raise ReasonloopError(f"the master has no queue ({reason_of(error)})") from error
            time.sleep(_POLL_S)


def _call(method: Any, *arguments: object) -> Any:
    try:
        with unwrapped_signals():
            return ray.get(method.remote(*arguments))
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


def handed_params() -> str | None:
    """The master's params as JSON; None: it was given none."""
    found: str | None = _call(_queue().params)
    return found


def submit(source: pathlib.Path, models: Sequence[str], params: Params) -> str:
    """Hand a file of questions to the queue; returns the name of the batch, equal for equal work."""
    text, own = source.read_text("utf-8"), params.model_dump_json()
    name = digest_json([text, [*models], own])[:12]
    _call(_queue().submit, name, models, own, text)
    return name


def states() -> list[BatchState]:
    """Of the batches of the master."""
    found: list[BatchState] = _call(_queue().states)
    return found


def state_of(name: str) -> BatchState:
    """Of one batch. BadInputError: there is none of this name."""
    found: BatchState = _call(_queue().state, name)
    return found


def fetch(name: str) -> str:
    """The lines of the answers so far."""
    found: str = _call(_queue().fetch, name)
    return found
