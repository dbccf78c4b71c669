"""A repository under git and DVC: `dvc repro`, the commit of dvc.lock, the push of data and commit.

All of them run as programs. DVC locks the repository, so no task here may run inside a DVC stage.
"""

import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import psutil
from prefect import task
from prefect.logging import get_run_logger

from pipeline_lib.defaults import CODE_LOCK, DVC_LOCK
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.environment import environment
from pipeline_lib.terminal_text import one_line
from tasks.policies import PLAN, TRAINING

# Stages run `python`, which must be this one.
_PATH = f"PATH={pathlib.Path(sys.executable).parent}{os.pathsep}{environment('PATH') or ''}"
_DVC = ("env", _PATH, sys.executable, "-m", "dvc")
_MESSAGE = "dvc.lock of an unattended dvc repro"
_STOP_S = 15.0


@task(**PLAN, task_run_name="check-repository")
def check_repository(root: pathlib.Path, *, push: bool) -> None:
    """Check before any work that the result can be committed and pushed.

    Raises:
        BadInputError: no repository, uncommitted changes, no identity for git, no DVC remote.
    """
    if environment("DVC_STAGE"):
        raise BadInputError("DVC_STAGE is set: dvc repro cannot run inside a stage of DVC")
    if not (root / ".git").exists() or not (root / ".dvc").is_dir():
        raise BadInputError(f"{root}: no git repository with DVC; start the worker in one")
    if changed := _output(root, "git", "status", "--porcelain"):
        first = changed.splitlines()[0].strip()
        raise BadInputError(f"{root}: uncommitted changes ({first}, ...); commit or stash them")
    _output(root, "git", "var", "GIT_COMMITTER_IDENT")
    if push and not _output(root, *_DVC, "config", "core.remote", otherwise=""):
        raise BadInputError(f"{root}: no DVC remote; `dvc remote add -d NAME URL`, or push: false")


@task(**TRAINING, task_run_name="dvc-repro")
def reproduce_stages(root: pathlib.Path, targets: Sequence[str]) -> None:
    """Run `dvc repro`, its output in the log of this task.

    Raises:
        ReasonloopError: a stage failed.
    """
    log = get_run_logger()
    last = ""
    command = [*_DVC, "repro", "--", *targets] if targets else [*_DVC, "repro"]
    with subprocess.Popen(  # noqa: S603 - stages of the repository; no shell
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            for line in process.stdout or ():
                if shown := one_line(line):
                    log.info(shown)
                    last = shown
        except BaseException:
            _stop(process.pid)
            raise
    if process.returncode:
        raise ReasonloopError(f"dvc repro in {root}: {last}")


@task(**PLAN, task_run_name="commit-lock")
def commit_lock(root: pathlib.Path) -> None:
    """Commit dvc.lock and the digests of code if the stages have changed them."""
    locks = [name for name in (DVC_LOCK, CODE_LOCK) if (root / name).exists()]
    _output(root, "git", "add", "--", *locks)
    if _output(root, "git", "status", "--porcelain", "--", *locks):
        _output(root, "git", "commit", "--quiet", "--message", _MESSAGE, "--", *locks)


@task(**PLAN, task_run_name="push-results")
def push_results(root: pathlib.Path) -> None:
    """Push data first, so that whoever pulls the commit finds its data; then the commit.

    A branch without an upstream stays local.
    """
    _output(root, *_DVC, "push")
    if _output(root, "git", "rev-parse", "--abbrev-ref", "@{upstream}", otherwise=""):
        _output(root, "git", "push", "--quiet")
    else:
        get_run_logger().warning("%s: the branch has no upstream; its commit is not pushed", root)


def _output(root: pathlib.Path, *command: str, otherwise: str | None = None) -> str:
    """Standard output of a command in ``root``.

    Raises:
        ReasonloopError: it failed, and there is no ``otherwise``.
    """
    done = subprocess.run(  # noqa: S603 - fixed commands; no shell
        command, cwd=root, capture_output=True, text=True, check=False
    )
    if done.returncode and otherwise is not None:
        return otherwise
    if done.returncode:
        shown = " ".join(command).rpartition(f"{sys.executable} -m ")[2]
        reason = one_line((done.stderr or done.stdout).strip().rpartition("\n")[2])
        raise ReasonloopError(f"{shown} in {root}: {reason}")
    return done.stdout.strip()


def _stop(pid: int) -> None:
    """End a process and its children, which outlive DVC otherwise."""
    try:
        parent = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    family = [*parent.children(recursive=True), parent]
    for process in family:
        process.terminate()
    _, alive = psutil.wait_procs(family, timeout=_STOP_S)
    for process in alive:
        process.kill()
