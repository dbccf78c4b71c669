"""Parameters of a deployment: what they resolve to, and what is refused in one line."""

import pathlib

import pytest

from benchmarks.lib.repository import REPOSITORY
from flows.platform.deployments import described, resolved_run
from flows.platform.registration import (
    check_addresses,
    pools_of,
    read_automations,
    read_deployments,
)
from flows.server.server import HEARTBEAT_S
from pipeline_lib.errors import BadInputError
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.stage import Run


def test_parameters_resolve_as_the_command_does(tmp_path, monkeypatch):
    """Profile and overrides over params.yaml; a relative workspace from the working folder."""
    monkeypatch.chdir(tmp_path)
    found = resolved_run(pathlib.Path("trial"), "smoke", ("seed=9",), None)
    expected = load_params(profile="smoke", overrides=["seed=9"])
    assert found == Run(root=tmp_path / "trial", params=expected)
    assert resolved_run(None, None, (), None) == Run(root=tmp_path, params=load_params())


def test_a_whole_run_is_accepted_alone(tmp_path):
    """A `Run` is taken as it is; together with another parameter it is refused."""
    run = Run(root=tmp_path, params=load_params(profile="smoke"))
    assert resolved_run(None, None, (), run) == run
    with pytest.raises(BadInputError, match="leave one of them out"):
        resolved_run(None, "smoke", (), run)


def test_the_artifact_holds_all_params(tmp_path):
    """The YAML of the artifact reads back as the params."""
    run = Run(root=tmp_path, params=load_params(profile="smoke", overrides=["train.lr=1e-4"]))
    text = described(run)
    assert f"`{tmp_path}`" in text
    copy = tmp_path / "copy.yaml"
    copy.write_text(text.partition("```yaml\n")[2].removesuffix("```\n"), encoding="utf-8")
    assert load_params(copy) == run.params


def test_the_deployments_of_the_repository():
    """No schedule, heartbeats every 30 s, one run of each at a time. A promotion that was answered is a run
    of its own beside one that waits, so these have no limit.
    """
    content, names = read_deployments(REPOSITORY / "prefect.yaml", ())
    assert " ".join(names) == (
        "post-training/nightly evaluate/weekly reproduce/on-demand promote/gated"
    )
    assert pools_of(content) == {"reasonloop"}
    for one in content["deployments"]:
        variables = one["work_pool"]["job_variables"]
        assert variables["env"]["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"] == str(HEARTBEAT_S)
        assert variables["working_dir"] == "."
        alone = {"limit": 1, "collision_strategy": "CANCEL_NEW"}
        assert one.get("concurrency_limit") == (None if one["name"] == "gated" else alone)
        assert one["tags"] == ["reasonloop"]
        assert "schedules" not in one


@pytest.mark.parametrize("name", ["weekly", "evaluate", "evaluate/weekly"])
def test_a_schedule_is_of_one_deployment(name):
    """Named by its flow, its own name or both; the zone is UTC by default."""
    content, _ = read_deployments(REPOSITORY / "prefect.yaml", [f"{name}=0 8 * * 1 Europe/Berlin"])
    found = {one["name"]: one.get("schedules") for one in content["deployments"]}
    expected = [{"cron": "0 8 * * 1", "timezone": "Europe/Berlin"}]
    assert found == {"nightly": None, "weekly": expected, "on-demand": None, "gated": None}
    assert read_deployments(REPOSITORY / "prefect.yaml", [f"{name}=0 8 * * 1"])[0]["deployments"][
        1
    ]["schedules"] == [{"cron": "0 8 * * 1", "timezone": "UTC"}]


@pytest.mark.parametrize(
    ("before", "after", "schedules", "words"),
    [
        ("deployments:", "deployments: [", (), "Prefect's format"),
        ("deployments:", "deploys:", (), "'deployments'"),
        ("concurrency_limit", "concurrencylimit", (), "no key 'concurrencylimit'"),
        ("parameters: *run", "parameters: {worksapce: x}", (), "worksapce"),
        ("parameters: *run", "parameters: {overrides: [seed]}", (), "match pattern"),
        ("deployments.evaluate", "deployments.x", (), "no flow at reasonloop.deployments.x"),
        ("# schedules:", "schedules: [{cron: 0 2 * *}]\n#", (), "Invalid cron string"),
        ("", "", ["weekly=0 8 * * 1 Mars/Olympus"], "Invalid timezone"),
        ("", "", ["weekly=0 8 * *"], "Invalid cron string"),
        ("", "", ["monthly=0 8 1 * *"], "no such deployment; known: post-training/nightly"),
    ],
)
def test_what_prefect_would_refuse_or_ignore_is_one_line(tmp_path, before, after, schedules, words):
    """Before anything is made; the message names the file and the deployment, or the option."""
    path = tmp_path / "prefect.yaml"
    path.write_text(
        (REPOSITORY / "prefect.yaml").read_text("utf-8").replace(before, after), "utf-8"
    )
    with pytest.raises(BadInputError, match=words) as caught:
        read_deployments(path, schedules)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("--schedule" if schedules else str(path))


def test_the_automations():
    """Two heartbeats before a run is a zombie, which ends its subflow runs, too; a person is notified of the
    runs of deployments alone.
    """
    found = {one.name.removeprefix("reasonloop "): one for one in read_automations()}
    assert list(found) == ["failed runs", "crashed runs", "zombie runs", "runs that do not start"]
    zombies = found["zombie runs"]
    assert zombies.trigger.within.total_seconds() == 2 * HEARTBEAT_S
    assert [one.type for one in zombies.actions] == ["change-flow-run-state"]
    for name, automation in found.items():
        is_of_deployment = "prefect.deployment.*" in str(automation.trigger.match_related)
        assert is_of_deployment == (name != "zombie runs")
        assert "prefect.tag.reasonloop" in str(automation.trigger.match_related)


def test_an_address_of_another_kind_is_one_line(monkeypatch):
    """An e-mail address without a scheme."""
    monkeypatch.setenv("REASONLOOP_EMAIL_URL", "person@example.org")
    with pytest.raises(BadInputError, match="REASONLOOP_EMAIL_URL: must begin with mailto://"):
        check_addresses()


def test_an_option_of_before_is_answered(refused):
    """One line with the place of its replacement, exit code 2."""
    assert "docs/guide.md" in refused("deploy", "--systemd")
