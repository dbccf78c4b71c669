"""prefect.yaml as types: the deployments that `reasonloop deploy` registers.

The file has Prefect's own format, of which these are the parts in use; any other key is refused.
"""

import pathlib
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline_lib.errors import BadInputError, first_fault, reason_of


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Schedule(_Part):
    """When a deployment runs; the time zone decides what a change of summer time does."""

    cron: str
    timezone: str


class Concurrency(_Part):
    """Runs of a deployment at a time, and what happens to one more."""

    limit: int = Field(gt=0)
    collision_strategy: Literal["ENQUEUE", "CANCEL_NEW"]


class WorkPool(_Part):
    """The pool whose workers run a deployment, and the variables of its processes."""

    name: str
    job_variables: dict[str, Any] = {}


class Definition(_Part):
    """One deployment."""

    name: str
    entrypoint: str
    """Import path of the flow."""
    work_pool: WorkPool
    description: str | None = None
    tags: tuple[str, ...] = ()
    parameters: dict[str, Any] = {}
    schedules: tuple[Schedule, ...] = ()
    concurrency_limit: Concurrency | None = None


class PrefectFile(_Part):
    """The whole file. Anchors of YAML are in ``definitions``."""

    name: str
    deployments: tuple[Definition, ...]
    pull: tuple[()] = ()
    definitions: dict[str, Any] = {}

    @property
    def pools(self) -> list[str]:
        """Names of the work pools, each once."""
        return sorted({definition.work_pool.name for definition in self.deployments})


def read_prefect_file(path: pathlib.Path) -> PrefectFile:
    """Read and check a file.

    Raises:
        BadInputError: it cannot be read, or a key or value is wrong.
    """
    try:
        return PrefectFile.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except ValidationError as error:
        raise BadInputError(f"{path}: {first_fault(error, unnamed='(top level)')}") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadInputError(f"{path}: {reason_of(error)}") from error
