"""A command as several processes of torch.distributed on this machine, which end with its exit code.

torchrun ends with 1 whatever its processes end with, so that a slice of a training looks like a failure.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial

from flows.server.server import LOOPBACK, unused_port

_POLL_S = 0.1
_GRACE_S = 60.0
"""For the other processes once one has failed: they may wait for it in a collective."""


def run_ranks(command: Sequence[str], *, count: int) -> int:
    """Run ``command`` in ``count`` processes; the exit code of the first that fails, else 0.

    Rank 0 has the terminal; the end of what the others print is shown if one of them fails before it. SIGTERM is
    passed on, and Ctrl-C reaches all by itself.
    """
    group = {"WORLD_SIZE": str(count), "MASTER_ADDR": LOOPBACK, "MASTER_PORT": str(unused_port())}
    ranks: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryFile() as quiet:
        try:
            for rank in map(str, range(count)):
                output = quiet if ranks else None
                place = {**os.environ, **group, "RANK": rank, "LOCAL_RANK": rank}
                ranks.append(subprocess.Popen(command, env=place, stdout=output, stderr=output))  # noqa: S603 - own
            signal.signal(signal.SIGTERM, partial(_pass_on, ranks))
            failed = _first_failure(ranks)
        finally:
            for one in ranks:
                one.kill()
                one.wait()
        if failed is not None and failed is not ranks[0]:
            quiet.seek(-min(quiet.tell(), 4096), os.SEEK_END)
            sys.stderr.write(quiet.read().decode(errors="replace"))
    code = 0 if failed is None else failed.returncode
    return code if code >= 0 else 128 - code


def _pass_on(ranks: Sequence[subprocess.Popen[bytes]], sent: int, _frame: object) -> None:
    for one in ranks:
        one.send_signal(sent)


def _first_failure(ranks: Sequence[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes] | None:
    """Wait for all, but no longer than `_GRACE_S` after the first failure."""
    failed, deadline = None, float("inf")
    while True:
        is_running = any(rank.poll() is None for rank in ranks)
        found = next((rank for rank in ranks if rank.returncode), None)
        if failed is None and found is not None:
            failed, deadline = found, time.monotonic() + _GRACE_S
        if not is_running or time.monotonic() > deadline:
            return failed
        time.sleep(_POLL_S)
