"""Selection of the sandbox tier: the best one that passes a self-test of hostile programs."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Protocol

from pipeline_lib.errors import SandboxUnavailableError
from pipeline_lib.params.paths import CodeLimits
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.sandbox.client import (
    JailedInterpreter,
    JailRefusedError,
    RunReport,
    TestSuite,
)
from pipeline_lib.verify.sandbox.docker import DockerSandbox

TIERS = ("namespace", "landlock", "docker")
"""Best first."""
_ENDING_TIMEOUT_S = 30.0
"""For hostile programs that end by themselves; generous, so that a busy machine fails no tier."""
_ENDLESS_TIMEOUT_S = 0.4
_LOYAL = "def answer():\n    return 42\n"
_ANSWER_42 = TestSuite(entry_point="answer", tests="assert answer() == 42")
_NO_ESCAPE = TestSuite(entry_point="escapes", tests="assert escapes() == []")
_ESCAPES = """
import ctypes, mmap, os, signal, socket

def raw(number):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, 0, 0, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "refused")

ATTEMPTS = {
    "reads secrets": lambda: open("/etc/shadow").read(),
    "reads processes": lambda: open("/proc/1/environ").read(),
    "writes outside": lambda: open("/escape", "w"),
    "opens a socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
    "forks": lambda: os.fork() or os._exit(0),
    "executes": lambda: os.execv("/bin/true", ["true"]),
    "signals all": lambda: os.kill(-1, 0),
    "signals its parent": lambda: os.kill(os.getppid() or -1, 0),
    "gains rights": lambda: os.setuid(0),
    "takes 2 GB": lambda: mmap.mmap(-1, 2 << 30),
    "makes a memory file": lambda: os.memfd_create("x"),
    "leaves namespaces": lambda: raw({UNSHARE}),
}

def escapes():
    done = []
    for name, attempt in ATTEMPTS.items():
        try:
            attempt()
        except (OSError, MemoryError):
            continue
        done.append(name)
    return done
""".replace("{UNSHARE}", "272 if os.uname().machine == 'x86_64' else 97")
SelfTest = tuple[str, TestSuite, Status]
"""A program, its tests, and the expected status."""
ENDING: tuple[SelfTest, ...] = (
    (_LOYAL, _ANSWER_42, Status.CORRECT),
    (_ESCAPES, _NO_ESCAPE, Status.CORRECT),
    ("import os\nos._exit(0)\n", _ANSWER_42, Status.CRASHED),
    ("def answer():\n    return [0] * 10**9\n", _ANSWER_42, Status.MEMORY),
)
ENDLESS: tuple[SelfTest, ...] = (
    ("def answer():\n    return 9**9**8\n", _ANSWER_42, Status.TIMEOUT),
)


class Sandbox(Protocol):
    """Runs programs against tests in a jail."""

    tier: str

    def run(self, program: str, suite: TestSuite) -> RunReport:
        """Run one program; never raises for what the program does."""

    def close(self) -> None:
        """End all its processes."""


def open_tier(limits: CodeLimits) -> Sandbox:
    """Open the best tier, or the one named by ``limits.tier``.

    Raises:
        SandboxUnavailableError: none passes its self-test; the message gives the reason per tier.
    """
    reasons = []
    for name, reason in probe_tiers(limits):
        if not reason:
            return open_named_tier(name, limits)
        reasons.append(f"{name}: {reason}")
    raise SandboxUnavailableError(f"no sandbox for model-written code ({'; '.join(reasons)})")


def open_named_tier(name: str, limits: CodeLimits) -> Sandbox:
    """Open a tier that has passed its self-test in this process.

    Raises:
        JailRefusedError: the machine has no room for it.
    """
    kind = DockerSandbox if name == "docker" else functools.partial(JailedInterpreter, name)
    return kind(timeout_s=limits.timeout_s, memory_bytes=limits.memory_mb << 20)


def probe_tiers(limits: CodeLimits) -> Iterator[tuple[str, str]]:
    """Self-test the tiers that ``limits`` permit, best first: name, and reason for refusal or ""."""
    for name in TIERS if limits.tier == "auto" else (limits.tier,):
        yield name, _self_test_failure(name)


def _self_test_failure(name: str) -> str:
    for tests, timeout_s in ((ENDING, _ENDING_TIMEOUT_S), (ENDLESS, _ENDLESS_TIMEOUT_S)):
        try:
            sandbox = open_named_tier(name, CodeLimits(timeout_s=timeout_s))
        except JailRefusedError as error:
            return str(error)
        with contextlib.closing(sandbox):
            if failure := failed_self_test(sandbox, tests):
                return failure
    return ""


def failed_self_test(sandbox: Sandbox, tests: Sequence[SelfTest]) -> str:
    """Run the loyal and the hostile programs; the first failure, or an empty string."""
    for program, suite, expected in tests:
        report = sandbox.run(program, suite)
        if report.status is not expected:
            found = f"{report.status.value} ({report.detail})"
            return f"self-test: expected {expected.value}, got {found}"
    return ""
