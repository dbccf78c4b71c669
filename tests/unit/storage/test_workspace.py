"""The workspace: folders that no two stages share, and a lease that dies with its holder."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.storage.workspace import SPLITS, Workspace

REPOSITORY = pathlib.Path(__file__).parents[3]


def test_no_two_outputs_share_a_folder(tmp_path: pathlib.Path):
    """Splits, rounds, evaluations and policies lie apart, and all below the root."""
    workspace = Workspace(tmp_path)
    folders = [workspace.problems(split) for split in SPLITS]
    for number in (1, 2, 3):
        of_round = workspace.round_folders(number)
        folders += [of_round.paths, of_round.verdicts, of_round.traindata]
        folders.append(workspace.policy(number, rounds=3))
    for policy in ("base", "trained"):
        folders += [workspace.evaluation(policy).paths, workspace.evaluation(policy).verdicts]
    folders += [workspace.base, workspace.evaluation_result, workspace.reports]
    assert len(set(folders)) == len(folders)
    assert all(tmp_path in folder.parents for folder in folders)
    # Inside one another they would be part of each other's digest.
    assert not any(a in b.parents for a in folders for b in folders)


def test_last_round_gives_the_policy(tmp_path: pathlib.Path):
    """However many rounds there are, the last one ends in ``models/policy``."""
    workspace = Workspace(tmp_path)
    for rounds in (1, 2, 5):
        assert workspace.policy(rounds, rounds=rounds) == tmp_path / "models" / "policy"


def test_second_lease_is_refused_with_the_holder(tmp_path: pathlib.Path):
    """The same workspace cannot be held twice; the message says by which process it is."""
    workspace = Workspace(tmp_path)
    with workspace.lease():
        with (
            pytest.raises(ReasonloopError, match=rf"in use by process {os.getpid()}\b"),
            workspace.lease(),
        ):
            pass
        with Workspace(tmp_path / "other").lease():
            pass


def test_lease_is_free_after_use_and_after_an_error(tmp_path: pathlib.Path):
    """A run that ended, well or not, does not keep the next one out."""
    workspace = Workspace(tmp_path)
    with pytest.raises(KeyError), workspace.lease():
        raise KeyError
    with workspace.lease():
        pass


def test_lease_dies_with_its_holder(tmp_path: pathlib.Path):
    """After SIGKILL of the holder the workspace is free at once: there are no stale locks."""
    program = (
        "import pathlib, sys, time\n"
        "from pipeline_lib.storage.workspace import Workspace\n"
        "with Workspace(pathlib.Path(sys.argv[1])).lease():\n"
        "    print('held', flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ReasonloopError, match=str(holder.pid)), Workspace(tmp_path).lease():
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with Workspace(tmp_path).lease():
        pass
