"""Commands of a cluster of PaCoRe workers, in processes of their own, and an endpoint with two models."""

import asyncio
import itertools
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

import psutil
from starlette.responses import JSONResponse

from benchmarks.lib.repository import REPOSITORY
from flows.server.server import unused_port
from tests.unit.systems.pacore.scripted_chat import chat_response, text_of

NUM_QUESTIONS = 6
GIVE_UP_S = 180.0
ROUNDS = ("--set", "pacore.widths=[16,2]")
"""Calls of workers: two of 8 paths, one of 2 paths and the synthesis."""
NUM_CALLS = 4 * NUM_QUESTIONS
ONE_AT_A_TIME = ("--set", "serve.concurrency=8")
"""A worker that has one call at a time."""
KEY = "of-the-worker"
"""API key in the environment of workers alone."""
ENVIRONMENT = {**os.environ, "RAY_AUTH_TOKEN": secrets.token_hex(16)}
NODE_IDS = itertools.count(1)
BATCHES = itertools.count(1)


class Command:
    """A command while it runs."""

    node_id, model = 0, ""
    """Of a worker."""

    def __init__(self, *arguments: object, key: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "pacore", *map(str, arguments)],
            cwd=REPOSITORY,
            env=ENVIRONMENT | ({"OPENAI_API_KEY": key} if key else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, word: str) -> None:
        """Return once a line has ``word``."""
        lines = [*itertools.takewhile(lambda line: word not in line, self.process.stdout)]
        assert self.process.poll() is None, (lines, self.process.stderr.read())

    def family(self) -> list[psutil.Process]:
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def finish(self) -> tuple[int, str]:
        """Exit code, and output with errors."""
        output, errors = self.process.communicate(timeout=GIVE_UP_S)
        return self.process.returncode, output + errors

    def end(self, number: signal.Signals) -> tuple[int, str]:
        if self.process.stdout.closed:
            return self.process.returncode, ""
        self.process.send_signal(number)
        return self.finish()


class Endpoint:
    """Two models, whose texts depend on model, messages and seed; answers wait for the gate to open."""

    def __init__(self, server) -> None:
        self.server = server
        self.gate = threading.Event()
        self.gate.set()
        self.keys: set[str] = set()
        """API keys of the requests."""
        self.delay_s = {"A": 0.0, "B": 0.0}
        server.models = [{"id": "A"}, {"id": "B"}]
        server.always = self.reply

    async def reply(self, request, body) -> JSONResponse:
        self.keys.add(request.headers.get("authorization", "").removeprefix("Bearer "))
        # The probe at the start of a worker has no seed.
        if "seed" in body:
            await asyncio.to_thread(self.gate.wait)
        await asyncio.sleep(self.delay_s[body["model"]])
        text = text_of(json.dumps([body["model"], body["messages"]]), body.get("seed", 0))
        return JSONResponse(chat_response(body, text))

    @property
    def options(self) -> tuple[str, ...]:
        url = f"http://127.0.0.1:{self.server.port}/v1"
        return ("--engine", "url", "--set", f"serve.url={url}")


class Cluster:
    """A master, its workers, and batches on them."""

    def __init__(self, endpoint: Endpoint, folder, *options: str) -> None:
        self.endpoint = endpoint
        self.folder = folder
        self.address = f"{options[1] if options else '127.0.0.1'}:{unused_port()}"
        port = self.address.rpartition(":")[2]
        self.commands = []
        self._master = ("master", "--port", port, *options, "--workspace", folder)
        self.start_master()

    def start_master(self) -> None:
        """Also again, after its end."""
        self.master = self.run(*self._master)
        self.master.wait_for("serving")

    def run(self, *arguments: object, key: str = "") -> Command:
        self.commands.append(Command(*arguments, key=key))
        return self.commands[-1]

    def worker(self, model: str, *more: object, engine: Sequence[str] = ()) -> Command:
        """A worker that does not serve yet, of the endpoint unless an engine is given."""
        options = (*(engine or self.endpoint.options), *ONE_AT_A_TIME, *more)
        node_id = next(NODE_IDS)
        place = ("--master", self.address, "--node-id", node_id, "--workspace", self.folder)
        worker = self.run("worker", model, *place, *options, key=KEY)
        worker.node_id, worker.model = node_id, model
        return worker

    def workers(self, *models: str) -> list[Command]:
        """Workers of these models that serve; those that are missing are started."""
        running = [one for one in self.commands if one.model and one.process.poll() is None]
        found, new = [], []
        for model in models:
            known = next((one for one in running if one.model == model), None)
            if known is None:
                new.append(self.worker(model))
            else:
                running.remove(known)
            found.append(known or new[-1])
        ready(*new)
        return found

    def batch(self, model: str, *more: object) -> "Batch":
        return Batch(self, model, "--master", self.address, *more)

    def end(self) -> None:
        for command in reversed(self.commands):
            command.end(signal.SIGTERM)


class Batch:
    """A batch while it runs."""

    def __init__(self, cluster: Cluster, model: str, *options: object) -> None:
        source = questions(cluster.folder)
        self.output = cluster.folder / f"{secrets.token_hex(4)}.jsonl"
        self.command = cluster.run(
            *("batch", model, source, "--output", self.output, *ROUNDS),
            # A param that no answer depends on: a batch of equal params is the same batch.
            *("--set", f"pacore.max_requests={next(BATCHES)}", *options),
        )

    def finish(self) -> tuple[bytes, str]:
        """The file, and the line about the workers."""
        code, shown = self.command.finish()
        assert code == 0, shown
        return self.output.read_bytes(), next(
            (line for line in shown.splitlines() if "calls of workers" in line), ""
        )


def questions(folder) -> pathlib.Path:
    """A file of questions."""
    path = folder / "questions.jsonl"
    turns = [[{"role": "user", "content": f"What is {n}+1?"}] for n in range(NUM_QUESTIONS)]
    rows = [{"id": number, "messages": messages} for number, messages in enumerate(turns)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def ready(*workers: Command) -> list[Command]:
    """The workers once they serve."""
    for worker in workers:
        worker.wait_for("Ctrl-C")
    return [*workers]


def ended(family: list[psutil.Process]) -> bool:
    """True once no process of a family is left."""
    _, alive = psutil.wait_procs(family, timeout=GIVE_UP_S)
    return not alive
