"""examples/rayjob.yaml: a RayJob whose pods share the workspace."""

import importlib.metadata
import shlex

import pytest
import yaml

from benchmarks.lib.repository import REPOSITORY


@pytest.fixture
def job():
    return yaml.safe_load((REPOSITORY / "examples" / "rayjob.yaml").read_text("utf-8"))


def test_pods_share_the_workspace_of_the_run(job):
    """The run works in the folder that every pod mounts, on the cluster, with the tested version of Ray; the
    number of workers is fixed.
    """
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
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
