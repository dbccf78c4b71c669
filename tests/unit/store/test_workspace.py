"""The workspace: disjoint folders, and one writer at a time."""

import multiprocessing
import os

import pytest

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.store.workspace import Workspace


def test_rounds_share_no_folder(tmp_path):
    """Rounds have separate folders of paths, verdicts and training data."""
    workspace = Workspace(tmp_path)
    folders = [workspace.round_folders(number) for number in (1, 2, 3)]
    assert len({f.paths for f in folders} | {f.verdicts for f in folders}) == 6
    # Inside one another they would be part of each other's digest.
    first = {folders[0].paths, folders[0].verdicts, folders[0].traindata}
    assert not first & {parent for f in folders[1:] for parent in f.paths.parents}


def test_a_name_that_is_not_utf_8_is_one_line(tmp_path):
    """Params, records and reports name the workspace, in UTF-8."""
    with pytest.raises(BadInputError, match=r"w\\udcff': the name is not UTF-8; rename"):
        Workspace(tmp_path / os.fsdecode(b"w\xff"))


def test_the_last_round_makes_the_policy(tmp_path):
    """For any number of rounds the result is models/policy."""
    workspace = Workspace(tmp_path)
    assert workspace.policy(1, rounds=1) == workspace.policy(3, rounds=3)
    assert workspace.policy(1, rounds=3) != workspace.policy(2, rounds=3)


def hold(root, started, release):
    with Workspace(root).lease():
        started.set()
        release.wait()


def test_lease_is_refused_and_freed_with_its_holder(tmp_path):
    """A second process is refused with the id of the first; a killed holder leaves no lock."""
    context = multiprocessing.get_context("spawn")
    started, release = context.Event(), context.Event()
    holder = context.Process(target=hold, args=(tmp_path, started, release))
    holder.start()
    assert started.wait(30)
    with pytest.raises(ReasonloopError, match=f"process {holder.pid}"), Workspace(tmp_path).lease():
        pass
    holder.kill()
    holder.join()
    with Workspace(tmp_path).lease():
        assert (tmp_path / "telemetry" / "lease").read_text("utf-8") == str(os.getpid())
