"""Work pools, deployments, automations and their notifications, as `reasonloop deploy` writes them to a Prefect server.

`prefect deploy` writes the deployments of prefect.yaml, which are checked first. It replaces the schedules of a
deployment only where the file has some, so those made in the UI stay. An automation marks zombie runs as crashed: a
zombie run is listed as running while its process has died with its worker, so that no heartbeat arrives. Addresses of
notifications come from environment variables and are kept by the server in secret fields of blocks.
"""

import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import yaml
from prefect import Flow
from prefect.blocks.webhook import Webhook
from prefect.cli.deploy._models import DeploymentConfig  # private; Prefect is pinned to 3.8
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
from prefect.client.schemas.objects import BlockDocument
from prefect.client.schemas.schedules import CronSchedule
from prefect.events.actions import ActionTypes, CallWebhook, DoNothing, SendNotification
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import (
    MissingFlowError,
    ObjectNotFound,
    ParameterTypeError,
    SignatureMismatchError,
)
from prefect.flows import load_flow_from_entrypoint
from prefect.types import SecretDict
from prefect.workers.process import ProcessWorker
from pydantic import SecretStr

from flows.server.email_block import Email
from pipeline_lib import defaults
from pipeline_lib.errors import BadInputError, ReasonloopError, errors_at, reason_of
from pipeline_lib.params.environment import environment
from pipeline_lib.terminal_text import one_line

Content = dict[str, Any]
_SUBJECT = "{{ deployment.name }}: {{ flow_run.state.name }}"
_BODY = (
    "{{ flow.name }}/{{ deployment.name }}, run {{ flow_run.name }}: {{ flow_run.state.name }}. "
    "{{ flow_run.state.message }}"
)
_PLAIN_JSON = (
    '{"flow": {{ flow.name|tojson }}, "deployment": {{ deployment.name|tojson }}, '
    '"run": {{ flow_run.name|tojson }}, "run_id": {{ flow_run.id|string|tojson }}, '
    '"state": {{ flow_run.state.name|tojson }}, "message": {{ flow_run.state.message|tojson }}}'
)
_SLACK_JSON = (
    '{"text": {{ (flow.name ~ "/" ~ deployment.name ~ ", run " ~ flow_run.name ~ ": " '
    '~ flow_run.state.name ~ ". " ~ flow_run.state.message)|tojson }}}'
)
_CHANNELS = {
    "reasonloop-webhook": ("REASONLOOP_WEBHOOK_URL", _PLAIN_JSON),
    "reasonloop-slack": ("REASONLOOP_SLACK_URL", _SLACK_JSON),
    "reasonloop-email": ("REASONLOOP_EMAIL_URL", None),
}
"""The variable with the address, and the template of the JSON that is posted, by block; None: an e-mail."""


def read_deployments(path: pathlib.Path, schedules: Sequence[str]) -> tuple[Content, list[str]]:
    """Content of a prefect.yaml with ``schedules`` in it, and the names FLOW/DEPLOYMENT.

    Args:
        path: File in Prefect's format.
        schedules: NAME=CRON. NAME is FLOW, DEPLOYMENT or FLOW/DEPLOYMENT; CRON has five fields, and may have a time
            zone after them (default: UTC).

    Raises:
        BadInputError: something in the file or in ``schedules`` that Prefect would refuse or ignore.
    """
    wrong = (OSError, KeyError, TypeError, ValueError, yaml.YAMLError)
    with errors_at(path, *wrong, fault="no deployments in Prefect's format"):
        content: Content = yaml.safe_load(path.read_text("utf-8"))
        flows = [_load(one) for one in content["deployments"]]
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
    if unknown := definition.keys() - DeploymentConfig.model_fields.keys():
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
    with errors_at(where):
        CronSchedule(cron=schedule["cron"], timezone=schedule.get("timezone"))


def register(client: SyncPrefectClient, content: Content) -> None:
    """Create missing work pools, and create or update the deployments.

    Raises:
        ReasonloopError: `prefect deploy` fails; the message is the last line of its output.
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


def check_addresses() -> None:
    """Check the addresses for notifications in the environment.

    Raises:
        BadInputError: one has the wrong scheme.
    """
    for variable, payload in _CHANNELS.values():
        schemes = ("http://", "https://") if payload else ("mailto://", "mailtos://")
        if not (environment(variable) or schemes[0]).startswith(schemes):
            raise BadInputError(f"{variable}: must begin with {' or '.join(schemes)}")


def save_automations(client: SyncPrefectClient) -> None:
    """Create or update blocks and automations; an automation disabled in the UI stays disabled.

    `DoNothing` in the file of automations stands for the notifications.
    """
    notify = list(_saved_notifications(client)) or [DoNothing()]
    for wanted in read_automations():
        if isinstance(wanted.actions[0], DoNothing):
            wanted.actions = notify
        found = client.read_automations_by_name(wanted.name)
        if found:
            wanted.enabled = found[0].enabled
            client.update_automation(found[0].id, wanted)
        else:
            client.create_automation(wanted)


def remove_automations(client: SyncPrefectClient) -> None:
    """Delete the automations, then the blocks that they use."""
    for wanted in read_automations():
        for found in client.read_automations_by_name(wanted.name):
            client.delete_automation(found.id)
    for name in _CHANNELS:
        if block := _find_block(client, name):
            client.delete_block_document(block.id)


def read_automations() -> list[AutomationCore]:
    """The automations that the package ships. Nobody is notified until an address is set."""
    text = (defaults.FOLDER / defaults.AUTOMATIONS).read_text("utf-8")
    return [AutomationCore.model_validate(one) for one in yaml.safe_load(text)]


def _saved_notifications(client: SyncPrefectClient) -> Iterator[ActionTypes]:
    """Save a block for each address in the environment; an action for each block of the server, earlier ones included."""
    for name, (variable, payload) in _CHANNELS.items():
        if address := environment(variable):
            url, headers = SecretStr(address), SecretDict({"Content-Type": "application/json"})
            block = Webhook(url=url, headers=headers) if payload else Email(url=url)
            block.save(name, overwrite=True)
        if (found := _find_block(client, name)) is None:
            continue
        if payload:
            yield CallWebhook(block_document_id=found.id, payload=payload)
        else:
            yield SendNotification(block_document_id=found.id, subject=_SUBJECT, body=_BODY)


def _find_block(client: SyncPrefectClient, name: str) -> BlockDocument | None:
    kind = Webhook if _CHANNELS[name][1] else Email
    try:
        return client.read_block_document_by_name(name, kind.get_block_type_slug())
    except ObjectNotFound:
        return None
