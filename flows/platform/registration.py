"""Work pools and deployments of prefect.yaml on a Prefect server: checked, then written by `prefect deploy`.

Prefect replaces the schedules of a deployment only where the file has some, so those made in the UI stay.
"""

import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import yaml
from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import (
    MissingFlowError,
    ObjectNotFound,
    ParameterTypeError,
    SignatureMismatchError,
)
from prefect.flows import load_flow_from_entrypoint
from prefect.workers.process import ProcessWorker
from pydantic import ValidationError

from pipeline_lib.errors import BadInputError, ReasonloopError, first_fault, reason_of
from pipeline_lib.terminal_text import one_line

_KEYS = {
    *(
        "name",
        "entrypoint",
        "work_pool",
        "description",
        "tags",
        "parameters",
        "schedules",
        "paused",
    ),
    *(
        "concurrency_limit",
        "enforce_parameter_schema",
        "pull",
        "push",
        "build",
        "version",
        "triggers",
    ),
}
"""Keys of a deployment; Prefect ignores any other."""

Content = dict[str, Any]


def read_deployments(path: pathlib.Path, schedules: Sequence[str]) -> tuple[Content, list[str]]:
    """Content of a prefect.yaml with ``schedules`` in it, and the names FLOW/DEPLOYMENT.

    Args:
        path: File in Prefect's format.
        schedules: NAME=CRON, with the time zone after the five fields; of a flow, a deployment, or both.

    Raises:
        BadInputError: something in the file or in ``schedules`` that Prefect would refuse or ignore.
    """
    try:
        content: Content = yaml.safe_load(path.read_text("utf-8"))
        flows = [_load(one) for one in content["deployments"]]
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    except (OSError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise BadInputError(
            f"{path}: no deployments in Prefect's format ({reason_of(error)})"
        ) from error
    names = [
        f"{flow.name}/{one['name']}"
        for flow, one in zip(flows, content["deployments"], strict=True)
    ]
    for given in schedules:
        name, _, cron = given.partition("=")
        found = [index for index, full in enumerate(names) if name in {full, *full.split("/")}]
        if not found:
            raise BadInputError(
                f"--schedule {given}: no such deployment; known: {', '.join(names)}"
            )
        schedule = _parse_schedule(cron)
        for index in found:
            content["deployments"][index]["schedules"] = [schedule]
    return content, names


def _parse_schedule(cron: str) -> Content:
    fields = cron.split()
    schedule = {"cron": " ".join(fields[:5]), "timezone": " ".join(fields[5:]) or "UTC"}
    _check_schedule(schedule, "--schedule")
    return schedule


def _load(definition: Content) -> Flow[Any, Any]:
    """The flow of a deployment whose keys, parameters and schedules are right."""
    where = f"deployment {definition['name']}"
    if unknown := definition.keys() - _KEYS:
        raise BadInputError(f"{where}: Prefect has no key {min(unknown)!r}")
    for schedule in definition.get("schedules", []):
        _check_schedule(schedule, where)
    entrypoint = definition["entrypoint"]
    try:
        flow: Flow[Any, Any] = load_flow_from_entrypoint(entrypoint)
        flow.validate_parameters(definition.get("parameters", {}))
    except (ImportError, MissingFlowError, ValueError) as error:
        raise BadInputError(f"{where}: no flow at {entrypoint} ({reason_of(error)})") from error
    except (ParameterTypeError, SignatureMismatchError) as error:
        raise BadInputError(f"{where}: {reason_of(error)}") from error
    return flow


def _check_schedule(schedule: Mapping[str, Any], where: str) -> None:
    if "cron" not in schedule:
        return
    try:
        CronSchedule(cron=schedule["cron"], timezone=schedule.get("timezone"))
    except ValidationError as error:
        raise BadInputError(f"{where}: {first_fault(error)}") from error


def register(client: SyncPrefectClient, content: Content) -> None:
    """Create missing work pools, and create or update the deployments.

    Raises:
        ReasonloopError: Prefect refuses one; the message is its last line.
    """
    for pool in pools_of(content) - {one.name for one in client.read_work_pools()}:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(
            WorkPoolCreate(name=pool, type=ProcessWorker.type, base_job_template=template)
        )
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        yaml.safe_dump(content, file)
        file.flush()
        command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
        done = subprocess.run(  # noqa: S603 - fixed command
            [*command, "--prefect-file", file.name], capture_output=True, text=True, check=False
        )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout).strip().rpartition("\n")[2]
        raise ReasonloopError(f"prefect deploy: {one_line(said)}")


def pools_of(content: Content) -> set[str]:
    """Names of the work pools."""
    return {one["work_pool"]["name"] for one in content["deployments"]}


def unregister(client: SyncPrefectClient, content: Content, names: Sequence[str]) -> None:
    """Delete the deployments with their waiting runs, then the work pools that no other deployment uses."""
    for name in names:
        with suppress(ObjectNotFound):
            client.delete_deployment(client.read_deployment_by_name(name).id)
    for pool in pools_of(content):
        of_pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[pool]))
        if not client.read_deployments(work_pool_filter=of_pool):
            with suppress(ObjectNotFound):
                client.delete_work_pool(pool)
