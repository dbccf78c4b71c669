"""Detection of GPU memory that ended processes still hold, by the driver's list of processes.

Nothing is reported without a GPU, and in a container with process ids of its own, which the driver does not know.
"""

import pathlib
import shutil
import subprocess
import time
from collections.abc import Set as AbstractSet

_TIMEOUT_S = 15.0
_POLL_S = 0.5
_HOST_PIDS = 0xEFFFFFFC
"""Inode of the namespace of the host's process ids. Source: Linux, PROC_PID_INIT_INO."""


def find_leak(pids: AbstractSet[int]) -> str | None:
    """GPU memory that the driver still reports for ended processes after 15 s; None if there is none.

    The driver frees the memory of a killed process a moment after the process is gone.
    """
    client = shutil.which("nvidia-smi")
    if client is None or pathlib.Path("/proc/self/ns/pid").stat().st_ino != _HOST_PIDS:
        return None
    deadline = time.monotonic() + _TIMEOUT_S
    while held := _held(client, pids):
        if time.monotonic() > deadline:
            return f"GPU memory is still in use: {'; '.join(held)}"
        time.sleep(_POLL_S)
    return None


def _held(client: str, pids: AbstractSet[int]) -> list[str]:
    query = ["--query-compute-apps=pid,used_memory", "--format=csv,noheader"]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            [client, *query], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(",") for line in done.stdout.splitlines() if line.strip()]
    return [
        f"process {pid.strip()} holds {memory.strip()}"
        for pid, memory in rows
        if pid.strip().isdigit() and int(pid) in pids
    ]
