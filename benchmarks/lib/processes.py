"""A command in a process of its own, with the resources that it used."""

import os
import pathlib
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
