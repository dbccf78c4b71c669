"""The docker tier: a fresh container per program, for parity with other systems. Slow.

Docker isolates; inside, an interpreter judges as in the other tiers.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import uuid
from subprocess import DEVNULL, PIPE

from pipeline_lib.verdicts import Status
from pipeline_lib.verify.sandbox.client import (
    DIED,
    INTERPRETER_FLAGS,
    PACKAGE_ROOT,
    JailedInterpreter,
    JailRefusedError,
    RunReport,
    TestSuite,
)
from pipeline_lib.verify.sandbox.jail import kernel
from pipeline_lib.verify.sandbox.jail.isolation import wall_seconds

IMAGE = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
_OWN_FILES = "pipeline_lib"
"""Mounted whole, so that a new import cannot be missing inside; it holds no secrets."""
_INSIDE = pathlib.PurePosixPath("/opt/reasonloop")
_LAUNCH = (
    f"import sys; sys.path.insert(0, '{_INSIDE}'); "
    "from pipeline_lib.verify.sandbox.docker import judge_inside; judge_inside()"
)
_HEADROOM_MB = 96
"""For the other processes, so that the candidate reaches its own limit first."""
_START_GRACE_S = 30.0
_PROBE_TIMEOUT_S = 10.0


class DockerSandbox:
    """Runs each program in a container of its own, with the limits of a `JailedInterpreter`.

    ``image`` is a local image with ``python3``; it is never pulled. JailRefusedError: no client, no
    daemon, or no such image.
    """

    tier = "docker"

    def __init__(self, *, timeout_s: float, memory_bytes: int, image: str = IMAGE) -> None:
        self._docker = shutil.which("docker") or ""
        if not self._docker:
            raise JailRefusedError("there is no docker command")
        self._timeout_s = timeout_s
        self._memory_bytes = memory_bytes
        self._image = image
        self._probe()

    def run(self, program: str, suite: TestSuite) -> RunReport:
        """Run one program; never raises for what the program does."""
        start = time.perf_counter()
        limits = {"timeout_s": self._timeout_s, "memory_bytes": self._memory_bytes}
        request = json.dumps([limits, program, dataclasses.asdict(suite)])
        answer = self._answer(request.encode() + b"\n")
        seconds = time.perf_counter() - start
        if not answer:
            return RunReport(status=Status.VERIFIER_ERROR, detail=DIED, output="", seconds=seconds)
        fields = json.loads(answer)
        return RunReport(**{**fields, "status": Status(fields["status"]), "seconds": seconds})

    def close(self) -> None:
        """Do nothing: no process outlives a run."""

    def _probe(self) -> None:
        inspect = [self._docker, "image", "inspect", "--format", "{{.Id}}", self._image]
        try:
            answer = subprocess.run(  # noqa: S603 - fixed arguments
                inspect, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise JailRefusedError("the docker daemon does not answer") from error
        if answer.returncode:
            reason = " ".join(answer.stderr.split()) or "no reason given"
            raise JailRefusedError(f"{reason} (needs a daemon and: docker pull {self._image})")

    def _command(self, name: str) -> list[str]:
        memory = f"{(self._memory_bytes >> 20) + _HEADROOM_MB}m"
        source, target = PACKAGE_ROOT / _OWN_FILES, _INSIDE / _OWN_FILES
        return [
            *(self._docker, "run", "--rm", "--interactive", f"--name={name}", "--pull=never"),
            *("--network=none", "--ipc=none", f"--memory={memory}", f"--memory-swap={memory}"),
            *("--pids-limit=64", "--read-only", "--cap-drop=ALL", "--user=65534:65534"),
            *("--security-opt=no-new-privileges", "--log-driver=none"),
            *("--tmpfs=/tmp:size=16m,nr_inodes=1024,mode=1777", "--env=PYTHONHASHSEED=0"),
            f"--mount=type=bind,source={source},target={target},readonly",
            *(self._image, "python3", *INTERPRETER_FLAGS, "-c", _LAUNCH),
        ]

    def _answer(self, request: bytes) -> bytes:
        """What a container writes; empty if it died."""
        answer = b""
        name = f"reasonloop-{uuid.uuid4().hex}"
        process = subprocess.Popen(  # noqa: S603 - fixed arguments; nothing of the program
            self._command(name), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
        )
        assert process.stdin is not None
        assert process.stdout is not None
        limit_s = wall_seconds(self._timeout_s) + _START_GRACE_S
        watchdog = threading.Timer(limit_s, self._kill, (process, name))
        watchdog.start()
        try:
            with contextlib.suppress(BrokenPipeError), process:
                # Left open while the program runs: end of file would mean that this process is gone.
                process.stdin.write(request)
                process.stdin.flush()
                answer = process.stdout.read()
        finally:
            watchdog.cancel()
        return answer

    def _kill(self, process: subprocess.Popen[bytes], name: str) -> None:
        """Kill the container; killing only the docker client would leave it running."""
        command = [self._docker, "kill", name]
        subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - fixed arguments
        process.kill()


def judge_inside() -> None:
    """Entry point inside the container: one line of JSON in, the report as JSON out."""
    # The candidate runs under the same user, and a container has a /proc.
    kernel.set_dumpable(allowed=False)
    limits, program, suite = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_client, daemon=True).start()
    with contextlib.closing(JailedInterpreter("container", **limits)) as interpreter:
        report = interpreter.run(program, TestSuite(**suite))
    sys.stdout.write(json.dumps(dataclasses.asdict(report)))


def _end_with_client() -> None:
    """End the container at the end of its standard input: the client is gone."""
    os.read(0, 1)
    os._exit(1)
