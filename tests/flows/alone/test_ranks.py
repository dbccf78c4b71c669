"""Processes of one command: exit codes, output, and none is left."""

import signal
import subprocess
import sys
import time

import psutil

from flows.run.ranks import run_ranks


def ranks_of(code, *, count=2):
    return run_ranks(
        [sys.executable, "-c", f"import os, sys, time\nrank = int(os.environ['RANK'])\n{code}"],
        count=count,
    )


def test_the_exit_code_of_the_processes_is_returned():
    """0 of all, 3 of all, and that of a signal."""
    assert ranks_of("assert os.environ['WORLD_SIZE'] == '3'", count=3) == 0
    assert ranks_of("sys.exit(3)") == 3
    assert ranks_of("os.kill(os.getpid(), 9)") == 137


def test_a_failure_of_another_rank_is_shown(capsys):
    """Rank 0 would have ended well; what rank 1 printed is on stderr."""
    assert ranks_of("rank and sys.exit('no memory')") == 1
    assert capsys.readouterr().err == "no memory\n"


def test_sigterm_is_passed_on():
    """The command and its processes end with 143."""
    script = (
        "import sys\nfrom flows.run.ranks import run_ranks\n"
        "code = 'import time; print(1, flush=True); time.sleep(600)'\n"
        "sys.exit(run_ranks([sys.executable, '-c', code], count=2))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as command:
        assert command.stdout.readline() == b"1\n"
        family = psutil.Process(command.pid).children()
        time.sleep(0.5)  # the second process has started, too
        command.send_signal(signal.SIGTERM)
        assert command.wait(30) == 143
        assert len(family) >= 1
        assert not [process for process in family if process.is_running()]
