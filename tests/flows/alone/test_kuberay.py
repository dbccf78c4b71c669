"""examples/rayjob.yaml: a RayJob with only the fields of its definition, whose pods share the workspace."""

import importlib.metadata
import shlex

import pytest
import yaml

from benchmarks.lib.repository import REPOSITORY
from flows.cli.app import main
from tests.flows.ray_job_schema import RayJob


@pytest.fixture
def job():
    return yaml.safe_load((REPOSITORY / "examples" / "rayjob.yaml").read_text("utf-8"))


def test_the_job_fits_the_definition(job):
    """Every field is one of `ray.io/v1` and of pods, with its type; those that are required are there."""
    RayJob.model_validate(job)
    definitions = RayJob.model_json_schema(by_alias=True)["$defs"]
    assert set(definitions["HeadGroup"]["required"]) == {"rayStartParams", "template"}
    assert {"groupName", "minReplicas", "maxReplicas", "rayStartParams", "template"} <= set(
        definitions["WorkerGroup"]["required"]
    )


def test_pods_share_the_workspace_of_the_run(job):
    """The run works in the folder that every pod mounts, on the cluster, with the tested version of Ray; the
    number of workers is fixed.
    """
    spec, cluster = job["spec"], job["spec"]["rayClusterSpec"]
    command = shlex.split(spec["entrypoint"])
    assert command[:6] == [
        *("reasonloop", "run", "--workspace", "/workspace", "--ray-address", "auto")
    ]
    assert cluster["rayVersion"] == importlib.metadata.version("ray")
    [workers] = cluster["workerGroupSpecs"]
    assert workers["replicas"] == workers["minReplicas"] == workers["maxReplicas"]
    for group in (cluster["headGroupSpec"], workers):
        pod = group["template"]["spec"]
        [volume], [container] = pod["volumes"], pod["containers"]
        assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/workspace"}]
        assert [one["name"] for one in container["env"]] == ["PREFECT_API_URL"]
        assert container["resources"]["limits"] == container["resources"]["requests"]


def test_the_command_of_before_is_answered(capsys):
    """One line, exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(["kuberay", "--image", "a"])
    assert ended.value.code == 2
    assert "examples/rayjob.yaml" in capsys.readouterr().err
