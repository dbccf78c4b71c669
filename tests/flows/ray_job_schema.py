"""The allowed fields of our RayJob manifests (ray.io/v1, KubeRay 1.1 and later) and of their pods.

Names, types and required fields are those of the definitions; no other field passes.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=47)]
"""Of a RayJob, from which the operator derives longer names."""
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?([kMGTPE]i?|m)?$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


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
