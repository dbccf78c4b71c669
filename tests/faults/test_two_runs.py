"""Two runs of different workspaces at the same time."""

import pytest

from tests.faults.workspaces import assert_whole, copy_until, flow_runs

pytestmark = pytest.mark.slow


@pytest.mark.fault("two runs at once on one Prefect server", "continues")
def test_two_runs(start, prefect_server, unbroken, tmp_path):
    """With a local Ray each. Both end with the digests of a run alone, and neither marks runs of the other
    as crashed.
    """
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        copy_until("sample", unbroken, root)
    runs = [start.run(root, "--runner", "ray") for root in roots]
    for run, root in zip(runs, roots, strict=True):
        assert run.wait() == 0, run.stderr
        assert run.left_after(15) == []
        assert_whole(root, unbroken, prefect_server.api_url)
        states = flow_runs(prefect_server.api_url, root)
        assert set(states.values()) == {"Completed"}
