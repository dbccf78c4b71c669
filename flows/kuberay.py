"""A run on Kubernetes: a RayJob of the KubeRay operator, as a manifest.

The models hold the fields that are used, with the names, types and required fields of RayJob v1
(KubeRay 1.1 and later, package ray.io/v1) and of pods; no other field passes.
"""

import importlib.metadata
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from pipeline_lib.errors import BadInputError

WORKSPACE_MOUNT = "/workspace"
_VOLUME = "workspace"
_GPU = "nvidia.com/gpu"
_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_QUANTITY = r"^[0-9]+(\.[0-9]+)?([kMGTPE]i?|m)?$"

Name = Annotated[str, Field(pattern=_DNS_LABEL, max_length=47)]
"""Of a RayJob, from which the operator derives longer names."""
Quantity = Annotated[str, Field(pattern=_QUANTITY)]


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=True
    )


class Resources(_Part):
    """Requests equal limits, since Ray counts limits and Kubernetes places by requests."""

    limits: dict[str, Quantity]
    requests: dict[str, Quantity]


class Variable(_Part):
    """An environment variable."""

    name: str
    value: str


class Reference(_Part):
    """The name of an object in the same namespace."""

    name: Name


class VariablesOf(_Part):
    """All keys of a Secret as environment variables."""

    secret_ref: Reference


class Mount(_Part):
    """A volume in a container."""

    name: str
    mount_path: str


class Container(_Part):
    """The container of a Ray node."""

    name: str
    image: Annotated[str, Field(min_length=1)]
    resources: Resources
    env: tuple[Variable, ...]
    env_from: tuple[VariablesOf, ...] | None = None
    volume_mounts: tuple[Mount, ...]


class Claim(_Part):
    """A volume that is claimed elsewhere."""

    claim_name: Name


class Volume(_Part):
    """The shared workspace."""

    name: str
    persistent_volume_claim: Claim


class PodSpec(_Part):
    """A pod of one container."""

    containers: tuple[Container, ...]
    volumes: tuple[Volume, ...]


class PodTemplate(_Part):
    """Template of the pods of a group."""

    spec: PodSpec


class HeadGroup(_Part):
    """The head, which runs the command."""

    ray_start_params: dict[str, str]
    template: PodTemplate


class WorkerGroup(_Part):
    """A fixed number of workers: nodes that join later are not checked before the run."""

    group_name: Name
    replicas: Annotated[int, Field(ge=0)]
    min_replicas: Annotated[int, Field(ge=0)]
    max_replicas: Annotated[int, Field(ge=0)]
    ray_start_params: dict[str, str]
    template: PodTemplate


class RayClusterSpec(_Part):
    """The cluster."""

    ray_version: str
    head_group_spec: HeadGroup
    worker_group_specs: tuple[WorkerGroup, ...]


class RayJobSpec(_Part):
    """The job; a retry has a new cluster and resumes the workspace."""

    entrypoint: str
    shutdown_after_job_finishes: bool
    ttl_seconds_after_finished: Annotated[int, Field(ge=0)]
    backoff_limit: Annotated[int, Field(ge=0)]
    ray_cluster_spec: RayClusterSpec


class Metadata(_Part):
    """Name and namespace."""

    name: Name
    namespace: Name


class RayJob(_Part):
    """The manifest."""

    api_version: Literal["ray.io/v1"] = "ray.io/v1"
    kind: Literal["RayJob"] = "RayJob"
    metadata: Metadata
    spec: RayJobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Resources of one pod."""

    cpus: int
    memory_gib: int
    gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """Names, addresses and machines of a RayJob."""

    name: str
    namespace: str
    image: str
    """With this package and its dependencies."""
    claim: str
    """Claim of a volume that many nodes mount for writing (ReadWriteMany)."""
    api_url: str
    """Of a Prefect server that the pods reach."""
    head: Machine
    worker: Machine
    num_workers: int
    secret: str | None = None
    """A Secret whose keys become environment variables, such as tokens of hubs and trackers."""
    retries: int = 2
    keep_s: int = 600
    """Seconds for which the cluster is kept after the job, for its logs."""


def ray_job(request: JobRequest, arguments: Sequence[str]) -> RayJob:
    """The RayJob of `reasonloop run` with further ``arguments``.

    Raises:
        BadInputError: a value does not fit the schema.
    """
    entrypoint = ["reasonloop", "run", "--workspace", WORKSPACE_MOUNT, "--ray-address", "auto"]
    try:
        return RayJob(
            metadata=Metadata(name=request.name, namespace=request.namespace),
            spec=RayJobSpec(
                entrypoint=shlex.join([*entrypoint, *arguments]),
                shutdown_after_job_finishes=True,
                ttl_seconds_after_finished=request.keep_s,
                backoff_limit=request.retries,
                ray_cluster_spec=_cluster(request),
            ),
        )
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise BadInputError(f"kuberay: {key}: {first['msg']} (got {first['input']!r})") from error


def manifest(job: RayJob) -> str:
    """The RayJob as YAML, after a check that it is read back the same."""
    content: dict[str, Any] = job.model_dump(by_alias=True, exclude_none=True, mode="json")
    text = yaml.safe_dump(content, sort_keys=False, width=100)
    assert RayJob.model_validate(yaml.safe_load(text)) == job
    return text


def _cluster(request: JobRequest) -> RayClusterSpec:
    workers = request.num_workers
    return RayClusterSpec(
        ray_version=importlib.metadata.version("ray"),
        head_group_spec=HeadGroup(
            ray_start_params={},  # the operator adds what it needs
            template=_pod(request, request.head, container="ray-head"),
        ),
        worker_group_specs=(
            WorkerGroup(
                group_name="workers",
                replicas=workers,
                min_replicas=workers,
                max_replicas=workers,
                ray_start_params={},
                template=_pod(request, request.worker, container="ray-worker"),
            ),
        ),
    )


def _pod(request: JobRequest, machine: Machine, *, container: str) -> PodTemplate:
    amounts = {"cpu": str(machine.cpus), "memory": f"{machine.memory_gib}Gi"}
    if machine.gpus:
        amounts[_GPU] = str(machine.gpus)
    secret = request.secret
    return PodTemplate(
        spec=PodSpec(
            containers=(
                Container(
                    name=container,
                    image=request.image,
                    resources=Resources(limits=amounts, requests=amounts),
                    env=(Variable(name="PREFECT_API_URL", value=request.api_url),),
                    env_from=(VariablesOf(secret_ref=Reference(name=secret)),) if secret else None,
                    volume_mounts=(Mount(name=_VOLUME, mount_path=WORKSPACE_MOUNT),),
                ),
            ),
            volumes=(
                Volume(name=_VOLUME, persistent_volume_claim=Claim(claim_name=request.claim)),
            ),
        )
    )
