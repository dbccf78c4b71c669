"""One local Prefect server for all flows, tasks and Ray workers of this user.

Without an API address each Ray worker would start a server, so a run always has one: the server at
PREFECT_API_URL, else a local one, which is started if needed and left running.
"""

import fcntl
import hashlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import httpx
import platformdirs
import psutil
from pydantic import BaseModel, Field, ValidationError

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.environment import environment
from pipeline_lib.store.files import read_json, write_json

LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 15.0
BUSY_TIMEOUT_S = 120.0
_CONNECT_TIMEOUT_S = 10.0
_POLL_S = 0.2
_WORKSPACES = "workspaces.json"
HEARTBEAT_S = 30
"""Seconds between the heartbeats of a run."""

QUIET_ENVIRONMENT = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # The console shows progress bars; the server keeps all logs.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_CLI_COLORS": "false",
    # Each Prefect thread would report a dead server; `watch` does so once.
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    # A run whose heartbeats stop is marked as crashed by an automation; the default is 180 s.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S),
}


class LocalServer(BaseModel, strict=True, frozen=True):
    """A server that `ensure` started, as in ``server.json``. The start time detects a re-used process id."""

    pid: Annotated[int, Field(gt=0, lt=2**31)]
    started: float
    """Seconds since the epoch, as the process table gives it."""
    port: Annotated[int, Field(gt=0, lt=2**16)]

    @property
    def api_url(self) -> str:
        """Value of PREFECT_API_URL."""
        return f"{self.ui_url}/api"

    @property
    def ui_url(self) -> str:
        """Address of the UI in a browser."""
        return f"http://{LOOPBACK}:{self.port}"

    def process(self) -> psutil.Process | None:
        """The running process, or None if it has ended."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < 1
        except psutil.NoSuchProcess:
            return None
        return process if same and _is_alive(process) else None


def _is_alive(process: psutil.Process) -> bool:
    """False for a zombie, too: the run that has started the server may not have asked for its end."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def state_folder() -> pathlib.Path:
    """Folder of the server's database, log and address."""
    configured = environment("REASONLOOP_STATE")
    return pathlib.Path(configured or platformdirs.user_state_path("reasonloop"))


def report_url(root: pathlib.Path) -> str | None:
    """Address of a workspace's report at the local server; None if the run uses another server."""
    local = find()
    if local is None or local.api_url != environment("PREFECT_API_URL"):
        return None
    known, path = known_workspaces(state_folder()), str(root.resolve())
    key = hashlib.sha256(path.encode()).hexdigest()[:16]
    if known.get(key) != path:
        write_json(state_folder() / _WORKSPACES, known | {key: path})
    return f"{local.ui_url}/workspaces/{key}/report.html"


def known_workspaces(state: pathlib.Path) -> dict[str, str]:
    """The workspaces whose reports the server of ``state`` shows, by key."""
    file = state / _WORKSPACES
    return dict(read_json(file)) if file.is_file() else {}


def unused_port() -> int:
    """A port of the system's choice, on which no process listens now."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def _record() -> pathlib.Path:
    return state_folder() / "server.json"


def find() -> LocalServer | None:
    """The local server, if its process is running; else None."""
    if not _record().is_file():
        return None
    server = _recorded()
    return server if server and server.process() else None


def _recorded() -> LocalServer | None:
    """The server in server.json; None if the file is damaged, as after a power failure."""
    try:
        return LocalServer.model_validate(read_json(_record()))
    except (BadInputError, ValidationError):
        return None


def answers(api_url: str, *, timeout_s: float = 5) -> bool:
    """True if a Prefect API answers at ``api_url``: a busy server accepts at once, and answers later."""
    timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S))
    try:
        # To load the certificates takes longer than the request, which watchdogs repeat each second.
        answer = httpx.get(f"{api_url}/health", timeout=timeout, verify=api_url.startswith("https"))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):  # no answer, or no address
        return False
    return answer.status_code == httpx.codes.OK


def ensure() -> str:
    """Find or start the server, set PREFECT_API_URL to it, and return the UI's address.

    Must run before ``prefect`` is imported, since Prefect reads its settings then.

    Raises:
        ReasonloopError: PREFECT_API_URL names a server that does not answer, or none can be started.
    """
    configured = environment("PREFECT_API_URL")
    if configured and not answers(configured, timeout_s=BUSY_TIMEOUT_S):
        raise ReasonloopError(
            f"PREFECT_API_URL={configured} does not answer; start that server or unset the variable"
        )
    os.environ.update({k: v for k, v in QUIET_ENVIRONMENT.items() if k not in os.environ})
    if configured:
        return configured.removesuffix("/api")
    with _start_lock():
        found = find()
        server = found or _start()
        try:
            _wait_until_ready(server)
        except ReasonloopError:
            if found is None:
                stop()
            raise
    os.environ["PREFECT_API_URL"] = server.api_url
    return server.ui_url


@contextmanager
def _start_lock() -> Iterator[None]:
    """Serialize the start: two runs that begin together must not start two servers."""
    state_folder().mkdir(parents=True, exist_ok=True)
    with (state_folder() / "server.lock").open("w", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _start() -> LocalServer:
    port = unused_port()
    log = state_folder() / "server.log"
    with log.open("ab") as stream:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, fixed arguments
            _command(port),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # it outlives this run and its Ctrl-C
            env=_environment(port),
        )
    process.returncode = 0  # a Popen that is collected warns that its process is alive
    # Before it answers: if this process is killed, the next one finds the server.
    return _recorded_as(process.pid, port)


def become(port: int | None) -> NoReturn:
    """Turn this process into the local server, for a service manager that watches it.

    Raises:
        ReasonloopError: a local server is running.
    """
    with _start_lock():
        if running := find():
            raise ReasonloopError(
                f"the local server runs as process {running.pid}; `reasonloop server stop` stops it"
            )
        chosen = port or unused_port()
        _recorded_as(os.getpid(), chosen)
    os.execve(sys.executable, _command(chosen), _environment(chosen))  # noqa: S606 - no shell


def _recorded_as(pid: int, port: int) -> LocalServer:
    server = LocalServer(pid=pid, started=psutil.Process(pid).create_time(), port=port)
    write_json(_record(), server.model_dump())
    return server


def _command(port: int) -> list[str]:
    return [sys.executable, "-m", "flows.server.prefect_server", str(port), str(state_folder())]


def _environment(port: int) -> dict[str, str]:
    return {
        **os.environ,
        **QUIET_ENVIRONMENT,
        # The working directory may differ from the folder of the packages.
        "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path),
        "PREFECT_HOME": str(state_folder() / "prefect"),
        # By default the UI calls port 4200, whatever port serves it.
        "PREFECT_SERVER_UI_API_URL": f"http://{LOOPBACK}:{port}/api",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    }


def _wait_until_ready(server: LocalServer) -> None:
    """Wait for a slow server too: a second one would share its database."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not answers(server.api_url):
        if server.process() is None or time.monotonic() > deadline:
            raise ReasonloopError(
                f"the Prefect server (process {server.pid}) does not answer; see "
                f"{state_folder() / 'server.log'}, and `reasonloop server stop`"
            )
        time.sleep(_POLL_S)


def stop() -> bool:
    """Stop the local server; False if none is running."""
    if not _record().is_file():
        return False
    server = _recorded()
    process = server.process() if server else None
    _record().unlink()
    if process is None:
        return False
    family = [process, *process.children(recursive=True)]
    process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while family and time.monotonic() < deadline:
        _, family = psutil.wait_procs(family, timeout=_POLL_S)
        family = [*filter(_is_alive, family)]
    for survivor in family:
        survivor.kill()
    psutil.wait_procs(family, timeout=STOP_TIMEOUT_S)
    return True
