"""`reasonloop kuberay`: a RayJob with only the fields of its definition, and the run's arguments."""

import shlex

import pytest
import yaml

from flows.cli.app import main
from tests.flows.ray_job_schema import RayJob

REQUIRED = (
    *("--image", "registry.example/reasonloop:1", "--claim", "shared"),
    *("--api-url", "http://prefect:4200/api"),
)


def printed(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["kuberay", *REQUIRED, *arguments])
    assert ended.value.code in {0, None}
    return yaml.safe_load(capsys.readouterr().out)


def test_the_manifest_is_a_ray_job(capsys):
    """Kind, version and command; two workers with a GPU each; every pod mounts the claim."""
    job = printed(capsys, "--gpus", "1", "--", "--profile", "smoke", "--set", "seed=3 ")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    spec = job["spec"]
    assert shlex.split(spec["entrypoint"]) == [
        *("reasonloop", "run", "--workspace", "/workspace", "--ray-address", "auto"),
        *("--profile", "smoke", "--set", "seed=3 "),
    ]
    cluster = spec["rayClusterSpec"]
    [workers] = cluster["workerGroupSpecs"]
    assert workers["replicas"] == workers["minReplicas"] == workers["maxReplicas"] == 2
    pods = [group["template"]["spec"] for group in (cluster["headGroupSpec"], workers)]
    gpus = [pod["containers"][0]["resources"]["limits"].get("nvidia.com/gpu") for pod in pods]
    assert gpus == [None, "1"]
    for pod in pods:
        [volume], [container] = pod["volumes"], pod["containers"]
        assert volume["persistentVolumeClaim"] == {"claimName": "shared"}
        assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/workspace"}]
        assert container["env"] == [{"name": "PREFECT_API_URL", "value": "http://prefect:4200/api"}]
        assert "envFrom" not in container


def test_secrets_are_named_never_written(capsys):
    """A Secret is a reference in every container."""
    job = printed(capsys, "--secret", "tokens")
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert head["envFrom"] == [{"secretRef": {"name": "tokens"}}]


@pytest.mark.parametrize("name", ["Upper", "a_b", "-a", "a" * 48, ""])
def test_a_name_that_kubernetes_refuses_is_refused(capsys, name):
    """One line, exit code 2, no manifest."""
    with pytest.raises(SystemExit) as ended:
        main(["kuberay", *REQUIRED, f"--name={name}"])
    assert ended.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert "name" in output.err


@pytest.mark.parametrize(
    "options", [(), ("--gpus", "2", "--secret", "tokens", "--head-memory-gib", "64"), ("--name=a",)]
)
def test_the_manifest_fits_the_definition(capsys, options):
    """Every field is one of `ray.io/v1` and of pods, with its type; those that are required are there."""
    RayJob.model_validate(printed(capsys, *options))


def test_required_fields_are_those_of_the_definition():
    """In `ray.io/v1` a head group needs rayStartParams and template, a worker group also groupName,
    minReplicas and maxReplicas.
    """
    definitions = RayJob.model_json_schema(by_alias=True)["$defs"]
    assert set(definitions["HeadGroup"]["required"]) == {"rayStartParams", "template"}
    assert {"groupName", "minReplicas", "maxReplicas", "rayStartParams", "template"} <= set(
        definitions["WorkerGroup"]["required"]
    )


def test_amounts_below_one_are_refused(capsys):
    """A pod has memory."""
    with pytest.raises(SystemExit) as ended:
        main(["kuberay", *REQUIRED, "--head-memory-gib=0"])
    assert ended.value.code == 2
    assert "head.memory_gib" in capsys.readouterr().err
