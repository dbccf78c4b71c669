"""Parameters of a deployment: what they resolve to, and what is refused in one line."""

import pathlib

import pytest

from benchmarks.lib.repository import REPOSITORY
from flows.platform.prefect_file import read_prefect_file
from flows.run.request import RunRequest, described
from pipeline_lib.errors import BadInputError
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.stage import Run


def test_a_request_resolves_as_the_command_does(tmp_path, monkeypatch):
    """Profile and overrides over params.yaml; a relative workspace from the working folder."""
    monkeypatch.chdir(tmp_path)
    asked = RunRequest(workspace=pathlib.Path("trial"), profile="smoke", overrides=("seed=9",))
    expected = load_params(profile="smoke", overrides=["seed=9"])
    assert asked.resolved() == Run(root=tmp_path / "trial", params=expected)
    assert RunRequest().resolved() == Run(root=tmp_path, params=load_params())


def test_a_whole_run_is_accepted_alone(tmp_path):
    """A `Run` is taken as it is; together with another parameter it is refused."""
    run = Run(root=tmp_path, params=load_params(profile="smoke"))
    assert RunRequest(run=run).resolved() == run
    with pytest.raises(BadInputError, match="leave one of them out"):
        RunRequest(run=run, profile="smoke").resolved()


def test_the_artifact_holds_all_params(tmp_path):
    """The YAML of the artifact reads back as the params."""
    run = Run(root=tmp_path, params=load_params(profile="smoke", overrides=["train.lr=1e-4"]))
    text = described(run)
    assert f"`{tmp_path}`" in text
    copy = tmp_path / "copy.yaml"
    copy.write_text(text.partition("```yaml\n")[2].removesuffix("```\n"), encoding="utf-8")
    assert load_params(copy) == run.params


def test_the_deployments_of_the_repository():
    """Two schedules with a time zone, heartbeats every 30 s, one run of each at a time. A promotion that was
    answered is a run of its own beside one that waits, so these have no limit.
    """
    file = read_prefect_file(REPOSITORY / "prefect.yaml")
    assert file.pools == ["reasonloop"]
    for one in file.deployments:
        variables = one.work_pool.job_variables
        assert variables["env"]["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"] == "30"
        assert variables["working_dir"] == "."
        if one.name == "gated":
            assert one.concurrency_limit is None
        else:
            assert one.concurrency_limit.limit == 1
            assert one.concurrency_limit.collision_strategy == "CANCEL_NEW"
        assert one.tags == ("reasonloop",)
    assert [one.name for one in file.deployments if one.schedules] == ["nightly", "weekly"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("deployments: [", "expected"),
        ("name: a\ndeployments: []\nbuild: []\n", "build: Extra inputs"),
        ("name: a\ndeployments: [{name: b}]\n", "deployments.0.entrypoint"),
    ],
    ids=["yaml", "key", "missing"],
)
def test_a_damaged_file_is_one_line(tmp_path, text, words):
    """The message names the file and the key."""
    path = tmp_path / "prefect.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInputError, match=words) as caught:
        read_prefect_file(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))
