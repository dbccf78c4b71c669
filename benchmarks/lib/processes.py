"""A command in a process of its own, with the resources that it used."""

import ctypes
import os
import pathlib
import resource
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Resources that one process used."""

    wall_s: float
    cpu_s: float
    peak_mib: float


def run_measured(command: Sequence[str], log: pathlib.Path) -> Usage:
    """Run ``command``, append its output to ``log``, and return the resources it used.

    Raises:
        ChildProcessError: the command failed.
    """
    with log.open("ab") as stream:
        # `wait4` gives the usage of this child alone, where getrusage adds up all of them.
        child = subprocess.Popen(command, stdout=stream, stderr=stream)
        before = os.times().elapsed
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = code = os.waitstatus_to_exitcode(status)
    if code:
        raise ChildProcessError(f"{' '.join(command)}: exit {code}; see {log}")
    return Usage(
        wall_s=os.times().elapsed - before,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_mib=usage.ru_maxrss / 1024,
    )


_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Let this process be the parent of descendants whose parents die, so that they can be waited for."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def run_with_descendants(
    command: Sequence[str], log: pathlib.Path, *, folder: pathlib.Path
) -> float:
    """Run ``command`` in ``folder``, append its output to ``log``, and return the CPU seconds of all its processes.

    It waits for those that outlive the command too; `adopt_orphans` was called before, and this process has no
    other child.

    Raises:
        ChildProcessError: the command failed.
    """
    before = _children_cpu_s()
    with log.open("ab") as stream:
        done = subprocess.run(command, cwd=folder, stdout=stream, stderr=stream, check=False)
    try:
        while True:
            os.wait()
    except ChildProcessError:  # none is left
        pass
    if done.returncode:
        raise ChildProcessError(f"{' '.join(command)}: exit {done.returncode}; see {log}")
    return _children_cpu_s() - before


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
