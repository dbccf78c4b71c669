"""A run on Kubernetes: a RayJob of the KubeRay operator (ray.io/v1, KubeRay 1.1 and later), as a manifest."""

import importlib.metadata
import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.sections import Count, Section, Whole

WORKSPACE_MOUNT = "/workspace"
_VOLUME = "workspace"
_GPU = "nvidia.com/gpu"
_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

Name = Annotated[str, Field(pattern=_DNS_LABEL, max_length=47)]
"""Of a RayJob, from which the operator derives longer names."""


class Machine(Section):
    """Resources of one pod."""

    cpus: Count
    memory_gib: Count
    gpus: Whole = 0


class JobRequest(Section):
    """Names, addresses and machines of a RayJob."""

    name: Name
    namespace: Name
    image: Annotated[str, Field(min_length=1)]
    """With this package and its dependencies."""
    claim: Name
    """Claim of a volume that many nodes mount for writing (ReadWriteMany)."""
    api_url: str
    """Of a Prefect server that the pods reach."""
    head: Machine
    worker: Machine
    num_workers: Whole
    """Fixed: nodes that join later are not checked before the run."""
    secret: Name | None = None
    """A Secret whose keys become environment variables, such as tokens of hubs and trackers."""
    retries: Whole = 2
    """A retry has a new cluster and resumes the workspace."""
    keep_s: Whole = 600
    """Seconds for which the cluster is kept after the job, for its logs."""


def read_request(values: Mapping[str, object]) -> JobRequest:
    """The request with ``values``. BadInputError: a value cannot be used on Kubernetes."""
    try:
        return JobRequest.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise BadInputError(f"kuberay: {key}: {first['msg']} (got {first['input']!r})") from error


def manifest(request: JobRequest, arguments: Sequence[str]) -> str:
    """The RayJob of `reasonloop run` with further ``arguments``, as YAML."""
    entrypoint = ["reasonloop", "run", "--workspace", WORKSPACE_MOUNT, "--ray-address", "auto"]
    workers = request.num_workers
    cluster = {
        "rayVersion": importlib.metadata.version("ray"),
        "headGroupSpec": {
            "rayStartParams": {},  # the operator adds what it needs
            "template": _pod(request, request.head, container="ray-head"),
        },
        "workerGroupSpecs": [
            {
                "groupName": "workers",
                "replicas": workers,
                "minReplicas": workers,
                "maxReplicas": workers,
                "rayStartParams": {},
                "template": _pod(request, request.worker, container="ray-worker"),
            }
        ],
    }
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": request.name, "namespace": request.namespace},
        "spec": {
            "entrypoint": shlex.join([*entrypoint, *arguments]),
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": request.keep_s,
            "backoffLimit": request.retries,
            "rayClusterSpec": cluster,
        },
    }
    return yaml.safe_dump(job, sort_keys=False, width=100)


def _pod(request: JobRequest, machine: Machine, *, container: str) -> dict[str, Any]:
    amounts = {"cpu": str(machine.cpus), "memory": f"{machine.memory_gib}Gi"}
    if machine.gpus:
        amounts[_GPU] = str(machine.gpus)
    content: dict[str, Any] = {
        "name": container,
        "image": request.image,
        # Ray counts limits, and Kubernetes places by requests.
        "resources": {"limits": amounts, "requests": dict(amounts)},
        "env": [{"name": "PREFECT_API_URL", "value": request.api_url}],
        "volumeMounts": [{"name": _VOLUME, "mountPath": WORKSPACE_MOUNT}],
    }
    if request.secret:
        content["envFrom"] = [{"secretRef": {"name": request.secret}}]
    claim = {"name": _VOLUME, "persistentVolumeClaim": {"claimName": request.claim}}
    return {"spec": {"containers": [content], "volumes": [claim]}}
