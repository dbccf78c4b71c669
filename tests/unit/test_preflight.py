"""Space for a run is checked against what it will still write."""

import pytest

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.loop import preflight
from pipeline_lib.params.whole import Params
from pipeline_lib.storage.workspace import Workspace


def test_a_resumed_run_needs_room_for_the_rest_alone(tmp_path, monkeypatch):
    """100 bytes are needed and 50 free: refused with 60 bytes of a release, which the run does not
    write; accepted with 60 bytes of a result.
    """
    monkeypatch.setattr(preflight, "needed_bytes", lambda _params: 100)
    monkeypatch.setattr(
        preflight.shutil, "disk_usage", lambda _root: type("Disk", (), {"free": 50})
    )
    released = Workspace(tmp_path).releases / "1"
    released.mkdir(parents=True)
    (released / "model.safetensors").write_bytes(bytes(60))
    with pytest.raises(ReasonloopError, match="MiB free"):
        preflight.check_space(tmp_path, Params())
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "part").write_bytes(bytes(60))
    preflight.check_space(tmp_path, Params())


def test_a_workspace_that_cannot_be_made_is_refused(tmp_path):
    """A file where the folder should be: one line with the path."""
    (tmp_path / "file").touch()
    with pytest.raises(ReasonloopError, match="file: cannot be written"):
        preflight.check_writable(tmp_path / "file")
