"""Work pools and deployments on a Prefect server, compared with prefect.yaml before they are written.

Prefect writes a deployment anew each time, which replaces its schedules and deletes the runs that wait.
So one that is equal already is left alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate
from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import MissingFlowError, ObjectNotFound, PrefectHTTPStatusError
from prefect.flows import load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema
from prefect.workers.process import ProcessWorker

from flows.platform.prefect_file import Definition
from pipeline_lib.errors import BadInputError, reason_of

State = Literal["missing", "different", "same", "not wanted"]


class Registered(Protocol):
    """Something that `reasonloop deploy` keeps on the server."""

    @property
    def title(self) -> str:
        """Name in the table of `reasonloop deploy`."""
        ...

    def state(self, client: SyncPrefectClient) -> State:
        """Compare the server's with what is wanted."""
        ...

    def write(self, client: SyncPrefectClient) -> None:
        """Create or change it."""
        ...

    def remove(self, client: SyncPrefectClient) -> bool:
        """Remove it; False if it was not there, or others need it."""
        ...


@dataclass(frozen=True, slots=True)
class Pool:
    """A work pool for workers that start processes. An existing one is never changed."""

    name: str

    @property
    def title(self) -> str:
        """Name in the table of `reasonloop deploy`."""
        return f"work pool {self.name}"

    def state(self, client: SyncPrefectClient) -> State:
        """Missing, or the same."""
        try:
            client.read_work_pool(self.name)
        except ObjectNotFound:
            return "missing"
        return "same"

    def write(self, client: SyncPrefectClient) -> None:
        """Create it."""
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(
            WorkPoolCreate(name=self.name, type=ProcessWorker.type, base_job_template=template)
        )

    def remove(self, client: SyncPrefectClient) -> bool:
        """Delete it, unless other deployments use it."""
        used = client.read_deployments(
            work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[self.name]))
        )
        if used or self.state(client) == "missing":
            return False
        client.delete_work_pool(self.name)
        return True


class Deployed:
    """A deployment of prefect.yaml."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._flow = _load(definition)

    @property
    def name(self) -> str:
        """FLOW/DEPLOYMENT."""
        return f"{self._flow.name}/{self._definition.name}"

    @property
    def title(self) -> str:
        """Name in the table of `reasonloop deploy`."""
        return f"deployment {self.name}"

    def state(self, client: SyncPrefectClient) -> State:
        """Compare the server's with the definition; paused in the UI is no difference."""
        found = self._find(client)
        if found is None:
            return "missing"
        return "same" if _comparable(found, self._plain()) == self._wanted() else "different"

    def write(self, client: SyncPrefectClient) -> None:
        """Create or replace it.

        Raises:
            BadInputError: the server refuses it; parameters that the flow does not take, for one.
        """
        definition = self._definition
        limit = definition.concurrency_limit
        strategy = limit and ConcurrencyLimitStrategy(limit.collision_strategy)
        zones = [CronSchedule(**schedule.model_dump()) for schedule in definition.schedules]
        try:
            client.create_deployment(
                client.create_flow_from_name(self._flow.name),
                definition.name,
                schedules=[DeploymentScheduleCreate(schedule=schedule) for schedule in zones],
                concurrency_limit=limit.limit if limit else None,
                concurrency_options=(
                    ConcurrencyOptions(collision_strategy=strategy) if strategy else None
                ),
                pull_steps=[],
                **self._plain(),
            )
        except PrefectHTTPStatusError as error:
            said = error.response.json().get("detail") or reason_of(error)
            raise BadInputError(f"{self.title}: refused by the server: {said}") from error

    def remove(self, client: SyncPrefectClient) -> bool:
        """Delete it, with the runs that wait."""
        found = self._find(client)
        if found is None:
            return False
        client.delete_deployment(found.id)
        return True

    def _find(self, client: SyncPrefectClient) -> DeploymentResponse | None:
        try:
            return client.read_deployment_by_name(self.name)
        except ObjectNotFound:
            return None

    def _plain(self) -> dict[str, Any]:
        """Fields that are stored as they are given."""
        definition = self._definition
        return {
            "description": definition.description or self._flow.description,
            "entrypoint": definition.entrypoint,
            "tags": list(definition.tags),
            "parameters": definition.parameters,
            "job_variables": definition.work_pool.job_variables,
            "work_pool_name": definition.work_pool.name,
            "parameter_openapi_schema": _strict_schema(self._flow),
            "enforce_parameter_schema": True,
        }

    def _wanted(self) -> dict[str, Any]:
        definition = self._definition
        limit = definition.concurrency_limit
        return self._plain() | {
            "schedules": [(one.cron, one.timezone) for one in definition.schedules],
            "limit": (limit.limit, limit.collision_strategy) if limit else None,
        }


def _comparable(found: DeploymentResponse, names: Iterable[str]) -> dict[str, Any]:
    limit = found.global_concurrency_limit
    options = found.concurrency_options
    schedules = [one.schedule for one in found.schedules]
    return {name: getattr(found, name) for name in names} | {
        "schedules": [
            (one.cron, one.timezone) if isinstance(one, CronSchedule) else None for one in schedules
        ],
        "limit": (limit.limit, options.collision_strategy.value) if limit and options else None,
    }


def _strict_schema(flow: Flow[Any, Any]) -> dict[str, Any]:
    """The parameters of ``flow``; the server then refuses others too."""
    return parameter_schema(flow).model_dump() | {"additionalProperties": False}


def _load(definition: Definition) -> Flow[Any, Any]:
    try:
        return load_flow_from_entrypoint(definition.entrypoint)
    except (ImportError, MissingFlowError, ValueError) as error:
        raise BadInputError(
            f"deployment {definition.name}: no flow at {definition.entrypoint} ({reason_of(error)})"
        ) from error
