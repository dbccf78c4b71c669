"""`pacore master`, `worker` and `batch --master` as a user runs them: real processes, real Ray."""

import asyncio
import itertools
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

import psutil
import pytest
from ray.util import get_node_ip_address
from starlette.responses import JSONResponse

from flows.cli.app import main
from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.repository import REPOSITORY
from pipeline_lib.training.bootstrap import save_blank_policy
from tests.unit.collaborative.scripted_chat import chat_response, text_of
from tests.unit.serving.scripted_server import scripted_server

NUM_QUESTIONS = 6
GIVE_UP_S = 180.0
ROUNDS = ("--widths", "16,2")
"""Calls of workers: two of 8 paths, one of 2 paths and the synthesis."""
NUM_CALLS = 4 * NUM_QUESTIONS
ONE_AT_A_TIME = ("--set", "serve.concurrency=8")
"""A worker that has one call at a time."""
ENVIRONMENT = {**os.environ, "RAY_AUTH_TOKEN": secrets.token_hex(16)}
NODE_IDS = itertools.count(1)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Command:
    """A command while it runs."""

    node_id, model = 0, ""
    """Of a worker."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "pacore", *map(str, arguments)],
            cwd=REPOSITORY,
            env=ENVIRONMENT,
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
        if self.process.returncode is not None:
            return self.process.returncode, ""
        self.process.send_signal(number)
        return self.finish()


class Endpoint:
    """Two models, whose texts depend on model, messages and seed; answers wait for the gate to open."""

    def __init__(self, server) -> None:
        self.server = server
        self.gate = threading.Event()
        self.gate.set()
        self.delay_s = {"A": 0.0, "B": 0.0}
        server.models = [{"id": "A"}, {"id": "B"}]
        server.always = self.reply

    async def reply(self, _request, body) -> JSONResponse:
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
        self.address = f"{options[1] if options else '127.0.0.1'}:{free_port()}"
        port = self.address.rpartition(":")[2]
        self.commands = []
        self.master = self.run("master", "--port", port, *options, "--workspace", folder)
        self.master.wait_for("serving")

    def run(self, *arguments: object) -> Command:
        self.commands.append(Command(*arguments))
        return self.commands[-1]

    def worker(self, model: str, *more: object, engine: Sequence[str] = ()) -> Command:
        """A worker that does not serve yet, of the endpoint unless an engine is given."""
        options = (*(engine or self.endpoint.options), *ONE_AT_A_TIME, *more)
        node_id = next(NODE_IDS)
        place = ("--master", self.address, "--node-id", node_id, "--workspace", self.folder)
        worker = self.run("worker", model, *place, *options)
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
            "batch", model, source, "--output", self.output, *ROUNDS, *options
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


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ended(family: list[psutil.Process]) -> bool:
    """True once no process of a family is left."""
    _, alive = psutil.wait_procs(family, timeout=GIVE_UP_S)
    return not alive


@pytest.fixture(scope="module")
def endpoint():
    with scripted_server() as server:
        yield Endpoint(server)


@pytest.fixture(scope="module")
def cluster(endpoint, tmp_path_factory):
    found = Cluster(endpoint, tmp_path_factory.mktemp("cluster"))
    yield found
    found.end()


@pytest.fixture(scope="module")
def unbroken(cluster, endpoint) -> bytes:
    """The file of a batch without workers."""
    content, _ = Batch(cluster, "A", *endpoint.options).finish()
    return content


def counts(line: str) -> dict[str, int]:
    """Calls by node id, and those that were lost."""
    calls, _, lost = line.removeprefix("calls of workers: ").partition("; ")
    by_node = {part.split()[-1]: int(part.split()[0]) for part in calls.split(", ")}
    return by_node | {"lost": int(lost.split()[0])}


def test_workers_join_die_and_leave_in_mid_batch(cluster, endpoint, unbroken):
    """One worker gives the file of a batch without workers.

    So do two of which one is killed while it draws, a third that joins, and the first that is told to go:
    its call in flight is answered, and that of the killed one is sent again.
    """
    [first] = cluster.workers("A")
    content, line = cluster.batch("A").finish()
    assert content == unbroken
    assert counts(line) == {str(first.node_id): NUM_CALLS, "lost": 0}
    second = cluster.workers("A", "A")[1]
    endpoint.gate.clear()
    batch = cluster.batch("A")
    eventually(lambda: endpoint.server.in_flight == 2 * 8)
    second.process.kill()
    eventually(lambda: endpoint.server.in_flight == 8)
    third = cluster.workers("A", "A")[1]
    eventually(lambda: endpoint.server.in_flight == 2 * 8)
    first.process.terminate()
    time.sleep(1.0)
    assert first.process.poll() is None
    endpoint.gate.set()
    content, line = batch.finish()
    assert content == unbroken
    expected = {str(first.node_id): 1, str(third.node_id): NUM_CALLS - 1, "lost": 1}
    assert counts(line) == expected
    assert first.finish() == (128 + signal.SIGTERM, "")


def test_models_share_each_round(cluster, endpoint, unbroken):
    """Path i is drawn by model i mod 2 whichever is faster, and the first model synthesizes.

    Two workers of one model share its calls; alone it gives the file of a batch without workers.
    """
    cluster.workers("A", "A", "B")
    files = []
    for slow in ("A", "B"):
        endpoint.delay_s = {"A": 0.0, "B": 0.0} | {slow: 0.1}
        content, line = cluster.batch("A", "--with", "B").finish()
        files.append(content)
        assert len(counts(line)) == 4
    assert files[0] == files[1]
    for row in map(json.loads, files[0].splitlines()):
        models = [[drawn["model"] for drawn in one] for one in row["round_responses"]]
        assert models == [["A", "B"] * 8, ["A", "B"], ["A"]]
        texts = [one["content"] for one in row["round_responses"][0]]
        assert len(set(texts)) == 16
    endpoint.delay_s = {"A": 0.0, "B": 0.0}
    content, line = cluster.batch("A").finish()
    assert content == unbroken
    assert len(counts(line)) == 3


def test_two_nodes_and_sigterm(endpoint, unbroken, tmp_path):
    """Workers on Ray nodes of their own give the same file; SIGTERM leaves no process of any command."""
    cluster = Cluster(endpoint, tmp_path, "--host", get_node_ip_address())
    try:
        first, second = ready(
            *(cluster.worker("A", "--node-ip", f"127.0.0.{host}") for host in (2, 3))
        )
        content, line = cluster.batch("A").finish()
        assert content == unbroken
        assert set(counts(line)) == {str(first.node_id), str(second.node_id), "lost"}
        for command in (first, second, cluster.master):
            family = command.family()
            assert len(family) > 3
            code, shown = command.end(signal.SIGTERM)
            assert (code, shown) == (128 + signal.SIGTERM, "")
            assert ended(family)
    finally:
        cluster.end()


def test_embedded_engines(cluster, tmp_path):
    """A model in the workers' own processes: one worker and two give the same file.

    Without a chat template it is refused.
    """
    model = tmp_path / "model"
    params = BootstrapParams(hidden_size=16, num_layers=1, num_heads=2)
    save_blank_policy(model, [{"prompt": "What is 3+1?\n", "completion": "4"}], params)
    embedded = ("--engine", "embedded")
    code, shown = cluster.worker(str(model), engine=embedded).finish()
    assert (code, shown.count("\n")) == (2, 1)
    assert "it has no chat template" in shown
    template = "{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}"
    (model / "chat_template.jinja").write_text(template, encoding="utf-8")
    config = json.loads((model / "config.json").read_text("utf-8"))
    # Room for the references of a synthesis.
    config["max_position_embeddings"] = 8192
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    files = []
    for number in (1, 2):
        ready(cluster.worker(str(model), engine=embedded))
        content, line = cluster.batch(str(model), "--set", "pacore.max_new_tokens=6").finish()
        files.append(content)
        assert len(counts(line)) == number + 1
    assert files[0] == files[1]
    assert {json.loads(row)["rounds"][1]["references"] for row in files[0].splitlines()} <= {15, 16}


NOBODY = "127.0.0.1:9"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["batch", "A", "FILE", "--output", "OUT", "--master", NOBODY], "9: no answer"),
        (["batch", "A", "FILE", "--output", "OUT", "--master", "here"], "give HOST:PORT"),
        (["batch", "A", "FILE", "--output", "OUT", "--with", "B"], "needs --master"),
        (
            ["batch", "A", "FILE", "--output", "OUT", "--master", NOBODY, "--engine", "url"],
            "the workers have",
        ),
        (["solve", "A", "Why?", "--master", NOBODY], "no answer"),
        (
            ["worker", "A", "--master", NOBODY, "--node-id", "1"],
            "reasonloop pacore master --port 9",
        ),
        (["worker", "A", "--master", NOBODY, "--node-id", "a/b"], "--node-id a/b"),
        (
            ["worker", "A", "--master", NOBODY, "--node-id", "1", "--node-ip", "127.0.0.2"],
            "start it with --host",
        ),
        (["master", "--port", "0"], "--port"),
    ],
)
def test_bad_options_are_one_line(tmp_path, capsys, arguments, message):
    """Exit code 2, before Ray is imported."""
    places = {"FILE": str(questions(tmp_path)), "OUT": str(tmp_path / "answers.jsonl")}
    with pytest.raises(SystemExit) as stopped:
        main(["pacore", *(places.get(word, word) for word in arguments)])
    assert stopped.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line


def test_what_the_cluster_refuses_is_one_line(cluster, endpoint, tmp_path):
    """Exit code 2: a port in use, a node id twice, a model that no worker serves, or that none can serve."""
    [worker] = cluster.workers("A")
    at = ("--master", cluster.address)
    port = cluster.address.rpartition(":")[2]
    asked = (questions(tmp_path), "--output", tmp_path / "answers.jsonl")
    served = (*endpoint.options, "--workspace", tmp_path)
    started = {
        f"--port {port}": ("master", "--port", port, "--workspace", tmp_path),
        f"--node-id {worker.node_id}": ("worker", "A", *at, "--node-id", worker.node_id, *served),
        "no worker serves C": ("batch", "C", *asked, *at),
        "A is given twice": ("batch", "A", *asked, *at, "--with", "A"),
        "does not serve C": ("worker", "C", *at, "--node-id", "c", *served),
    }
    for message, arguments in started.items():
        code, shown = cluster.run(*arguments).finish()
        assert (code, shown.strip().count("\n")) == (2, 0), shown
        assert message in shown


def test_a_killed_master_ends_its_workers(cluster):
    """SIGKILL, the last test of the cluster: no process of Ray is left, and a worker ends with one line."""
    [worker] = cluster.workers("A")
    family = cluster.master.family()
    cluster.master.process.kill()
    code, shown = worker.finish()
    assert code == 1
    assert shown.count("\n") == 1
    assert "has died" in shown
    assert ended(family)
