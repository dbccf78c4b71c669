"""A command in a process of its own, with the resources that it used."""

import os
import pathlib
import subprocess
import time
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


_ROOT = pathlib.Path("/sys/fs/cgroup")
CPU_GROUPS = _ROOT / "cpuacct" if (_ROOT / "cpuacct").exists() else _ROOT
"""The folder of control groups, of version 1 or 2."""


def run_with_descendants(
    command: Sequence[str], log: pathlib.Path, *, folder: pathlib.Path
) -> float:
    """Run ``command`` in ``folder``, append its output to ``log``, and return the CPU seconds of all its processes.

    They are those of a control group: the usage of waited-for children lacks the children of parents that
    ignore SIGCHLD, such as some workers of Ray. It waits for those that outlive the command too.

    Raises:
        ChildProcessError: the command failed.
        OSError: no control group can be made.
    """
    group = CPU_GROUPS / f"reasonloop-{os.getpid()}"
    group.mkdir()
    members = group / "cgroup.procs"
    enter = f'echo $$ > {members} && exec "$@"'
    try:
        with log.open("ab") as stream:
            done = subprocess.run(
                ["/bin/sh", "-c", enter, "sh", *command],
                cwd=folder,
                stdout=stream,
                stderr=stream,
                check=False,
            )
        while members.read_text():
            time.sleep(0.1)
        cpu_s = _group_cpu_s(group)
    finally:
        group.rmdir()
    if done.returncode:
        raise ChildProcessError(f"{' '.join(command)}: exit {done.returncode}; see {log}")
    return cpu_s


def _group_cpu_s(group: pathlib.Path) -> float:
    usage = group / "cpuacct.usage"
    if usage.exists():
        return int(usage.read_text()) / 1e9
    fields = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(fields["usage_usec"]) / 1e6
