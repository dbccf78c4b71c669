"""A Prefect server of its own, workers, and receivers of notifications, for tests of deployments."""

import json
import pathlib
import socketserver
import subprocess
import sys
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import psutil

from pipeline_lib.telemetry import read_events

RUN_S = 420.0
"""Longest wait for a run, on a machine that others load."""


@dataclass
class Site:
    """A server of its own, a folder for a worker, and a receiver of notifications."""

    folder: pathlib.Path
    environment: dict[str, str]
    receiver: ThreadingHTTPServer
    mail: socketserver.ThreadingTCPServer
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def state(self) -> pathlib.Path:
        return pathlib.Path(self.environment["REASONLOOP_STATE"])

    @property
    def api_url(self) -> str:
        port = json.loads((self.state / "server.json").read_text("utf-8"))["port"]
        return f"http://127.0.0.1:{port}/api"

    def call(self, method: str, path: str, *, json: Any = None, **body: Any) -> httpx.Response:
        """Ask the server, again while its database is locked, as Prefect's own client does."""
        content = None if method == "GET" else body if json is None else json
        deadline = time.monotonic() + RUN_S
        while True:
            try:
                answer = httpx.request(method, self.api_url + path, json=content, timeout=60)
            except httpx.TimeoutException:
                assert time.monotonic() < deadline
                continue
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                return answer
            assert time.monotonic() < deadline
            time.sleep(1)

    def command(self, *arguments: str | pathlib.Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "flows.cli", *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )

    def deploy(self, *arguments: str | pathlib.Path) -> str:
        done = self.command("deploy", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_worker(self, *, die_at: tuple[str, str] | None = None) -> None:
        """Start a worker, which is killed at an event if ``die_at`` names one (`tests.faults.die_at`)."""
        log = (self.folder / "worker.log").open("ab")
        with log:
            process = subprocess.Popen(
                [
                    # A worker stops by SIGINT, which is ignored below a shell's background job.
                    *("env", "--default-signal=INT"),
                    *(sys.executable, "-m"),
                    *(("tests.faults.die_at", *die_at) if die_at else ()),
                    *("prefect", "worker", "start"),
                    *("--pool", "reasonloop", "--type", "process"),
                ],
                cwd=self.folder,
                env=self.environment | {"PREFECT_API_URL": self.api_url},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.workers.append(process)

    def stop_worker(self) -> None:
        process = self.workers.pop()
        family = [
            psutil.Process(process.pid),
            *psutil.Process(process.pid).children(recursive=True),
        ]
        process.terminate()
        _, alive = psutil.wait_procs(family, timeout=60)
        for one in alive:
            one.kill()
        process.wait()

    def kill(self, holder: int) -> None:
        """SIGKILL for the worker and then for the flow, as when a machine loses its power."""
        process = self.workers.pop()
        family = [
            psutil.Process(process.pid),
            *psutil.Process(process.pid).children(recursive=True),
        ]
        assert holder in [one.pid for one in family]
        for one in family:
            one.kill()
        process.wait()

    def start(self, deployment: str, **parameters: Any) -> str:
        """Ask for a run; its id."""
        answer = self.asked(deployment, parameters)
        assert answer.status_code == httpx.codes.CREATED, answer.text
        return str(answer.json()["id"])

    def asked(self, deployment: str, parameters: dict[str, Any]) -> httpx.Response:
        found = self.call("GET", f"/deployments/name/{deployment}").raise_for_status().json()
        path = f"/deployments/{found['id']}/create_flow_run"
        return self.call("POST", path, parameters=parameters, state={"type": "SCHEDULED"})

    def run(self, run_id: str) -> dict[str, Any]:
        return dict(self.call("GET", f"/flow_runs/{run_id}").raise_for_status().json())

    def runs(self, **filters: Any) -> list[dict[str, Any]]:
        return list(self.call("POST", "/flow_runs/filter", **filters).raise_for_status().json())

    def awaited(self, run_id: str, *states: str, within_s: float = RUN_S) -> dict[str, Any]:
        """The run, once it is in one of ``states``."""
        deadline = time.monotonic() + within_s
        while (run := self.run(run_id))["state"]["name"] not in states:
            ended = run["state"]["type"] in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
            assert not ended, (run["state"], self.log_tail())
            assert time.monotonic() < deadline, (run["state"], self.log_tail())
            time.sleep(0.5)
        return run

    def await_work(self, root: pathlib.Path, stage: str, done: int) -> int:
        """Wait until a stage has come that far; the process that holds the workspace."""
        deadline = time.monotonic() + RUN_S
        while len(work_done(root, stage)) < done:
            ended = self.runs(
                flow_runs={"state": {"type": {"any_": ["FAILED", "CRASHED", "CANCELLED"]}}},
                sort="START_TIME_DESC",
            )
            mine = [one for one in ended if str(root) in str(one["tags"]) + str(one["parameters"])]
            assert not mine, (mine[0]["state"], self.log_tail())
            assert time.monotonic() < deadline, self.log_tail()
            time.sleep(0.2)
        return int((root / "telemetry" / "lease").read_text("utf-8"))

    def log_tail(self) -> str:
        log = self.folder / "worker.log"
        return log.read_text("utf-8", errors="replace")[-3000:] if log.is_file() else ""

    def below(self, run_id: str) -> list[dict[str, Any]]:
        """The subflow runs of a run, and theirs."""
        found = self.runs(
            flow_runs={"parent_flow_run_id": {"any_": [run_id]}}, sort="START_TIME_ASC"
        )
        return [*found, *(deep for one in found for deep in self.below(one["id"]))]

    def artifacts(self, run_id: str) -> dict[str, Any]:
        filters = {"artifacts": {"flow_run_id": {"any_": [run_id]}}, "limit": 50}
        found = self.call("POST", "/artifacts/filter", **filters).raise_for_status().json()
        return {one["key"]: one["data"] for one in found}

    def listed(self) -> dict[str, Any]:
        """All that `deploy` registers, as the server has it."""
        pages = {
            "deployments": self.call("POST", "/deployments/filter"),
            "automations": self.call("POST", "/automations/filter"),
            "pools": self.call("POST", "/work_pools/filter"),
            "blocks": self.call("POST", "/block_documents/filter", include_secrets=False),
        }
        found = {name: page.raise_for_status().json() for name, page in pages.items()}
        for pool in found["pools"]:
            del pool["status"]  # whether a worker polls it
        for one in found["deployments"]:
            del one["status"], one["last_polled"]
        return found


class Posts(BaseHTTPRequestHandler):
    """Keeps what is posted."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.posted.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing on the console."""


class Mail(socketserver.StreamRequestHandler):
    """As much of SMTP as a sender needs."""

    def handle(self) -> None:
        self.say("220 ready")
        while line := self.rfile.readline().decode().strip():
            verb = line.partition(" ")[0].upper()
            if verb == "DATA":
                self.say("354 go on")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.posted.append(b"".join(lines).decode())
            self.say("221 bye" if verb == "QUIT" else "250 ok")
            if verb == "QUIT":
                return

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


def work_done(root: pathlib.Path, stage: str, *, offset: int = 0) -> list[int]:
    return [
        event["done"]
        for event in read_events(root, offset=offset)
        if event["event"] == "work" and event["stage"] == stage
    ]
