"""Automations for failed, crashed and dead runs, and the notifications that they send.

A zombie run is listed as running while its process has died with its worker, so that no heartbeat
arrives. Addresses come from environment variables and are kept by the server in secret fields of blocks.
"""

from collections.abc import Iterator

import yaml
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import BlockDocument
from prefect.events.actions import ActionTypes, CallWebhook, DoNothing, SendNotification
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound
from prefect.types import SecretDict
from pydantic import SecretStr

from flows.server.email_block import Email
from pipeline_lib import defaults
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.environment import environment

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
CHANNELS = {
    "reasonloop-webhook": ("REASONLOOP_WEBHOOK_URL", _PLAIN_JSON),
    "reasonloop-slack": ("REASONLOOP_SLACK_URL", _SLACK_JSON),
    "reasonloop-email": ("REASONLOOP_EMAIL_URL", None),
}
"""The variable with the address, and the template of the JSON that is posted, by block; None: an e-mail."""


def check_addresses() -> None:
    """Check the addresses in the environment.

    Raises:
        BadInputError: one of another kind.
    """
    for variable, payload in CHANNELS.values():
        schemes = ("http://", "https://") if payload else ("mailto://", "mailtos://")
        if not (environment(variable) or schemes[0]).startswith(schemes):
            raise BadInputError(f"{variable}: must begin with {' or '.join(schemes)}")


def save_automations(client: SyncPrefectClient) -> None:
    """Create or update blocks and automations; an automation disabled in the UI stays disabled."""
    notify = list(_notifications(client)) or [DoNothing()]
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
    for name in CHANNELS:
        if block := _find_block(client, name):
            client.delete_block_document(block.id)


def read_automations() -> list[AutomationCore]:
    """The automations that the package ships. Nobody is notified until an address is set."""
    text = (defaults.FOLDER / defaults.AUTOMATIONS).read_text("utf-8")
    return [AutomationCore.model_validate(one) for one in yaml.safe_load(text)]


def _notifications(client: SyncPrefectClient) -> Iterator[ActionTypes]:
    """Save a block for each address in the environment; one action for each block on the server."""
    for name, (variable, payload) in CHANNELS.items():
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
    kind = Webhook if CHANNELS[name][1] else Email
    try:
        return client.read_block_document_by_name(name, kind.get_block_type_slug())
    except ObjectNotFound:
        return None
