"""Automations for failed, crashed and dead runs, and the notifications that they send.

A zombie run is listed as running while its process has died with its worker, so that no heartbeat
arrives. Addresses come from environment variables and are kept by the server in secret fields of blocks.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from prefect.blocks.core import Block
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import (
    ActionTypes,
    CallWebhook,
    ChangeFlowRunState,
    DoNothing,
    SendNotification,
)
from prefect.events.schemas.automations import (
    Automation,
    AutomationCore,
    EventTrigger,
    Posture,
    ResourceSpecificationDict,
)
from prefect.exceptions import ObjectNotFound
from prefect.types import SecretDict
from pydantic import SecretStr

from flows.platform.registration import State
from flows.run.guard import RUN_TAG
from flows.server.email_block import Email
from flows.server.server import HEARTBEAT_S
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.environment import environment

MISSED = 2
"""Heartbeats that are awaited before a run counts as a zombie."""
PENDING_S = 180
"""Longest time from the claim of a run to its start, imports on a slow disk included."""

QUIET = timedelta(minutes=5)
"""Time after a notification in which the same run causes no other."""

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
_ENDS = ("Completed", "Failed", "Crashed", "Cancelled", "TimedOut", "Paused", "Suspended")
"""States in which a run sends no heartbeats."""
_LEAVES_PENDING = ("Running", "Scheduled", "Late", "AwaitingConcurrencySlot", "Cancelling", *_ENDS)
"""States after ``Pending``, in which a worker has claimed the run and not started its process yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A way to a person: a block on the server, whose address is in an environment variable."""

    name: str
    variable: str
    payload: str | None
    """Template of the JSON that is posted; None: an e-mail."""

    @property
    def title(self) -> str:
        """Name in the table of `reasonloop deploy`."""
        return f"notification by {self.name}, {self.variable}"

    @property
    def _slug(self) -> str:
        return (Email if self.payload is None else Webhook).get_block_type_slug()

    def state(self, client: SyncPrefectClient) -> State:
        """Without an address in the environment, the server's block is as wanted."""
        address = environment(self.variable)
        found = self._find(client)
        if found is None:
            return "not wanted" if address is None else "missing"
        return "same" if address in {None, found.data["url"]} else "different"

    def write(self, client: SyncPrefectClient) -> None:  # noqa: ARG002 - blocks have their own
        """Create or change the block.

        Raises:
            BadInputError: no address of the kind.
        """
        address = environment(self.variable) or ""
        schemes = ("mailto://", "mailtos://") if self.payload is None else ("http://", "https://")
        if not address.startswith(schemes):
            raise BadInputError(f"{self.variable}: must begin with {' or '.join(schemes)}")
        self._block(SecretStr(address)).save(self.block, overwrite=True)

    def remove(self, client: SyncPrefectClient) -> bool:
        """Delete the block."""
        found = self._find(client)
        if found is None:
            return False
        client.delete_block_document(found.id)
        return True

    def action(self, client: SyncPrefectClient) -> ActionTypes | None:
        """The automation's action that notifies by this channel; None without a block."""
        found = self._find(client)
        if found is None:
            return None
        if self.payload is None:
            return SendNotification(block_document_id=found.id, subject=_SUBJECT, body=_BODY)
        return CallWebhook(block_document_id=found.id, payload=self.payload)

    @property
    def block(self) -> str:
        """Name of the block."""
        return f"reasonloop-{self.name}"

    def _block(self, address: SecretStr) -> Block:
        if self.payload is None:
            return Email(url=address)
        return Webhook(url=address, headers=SecretDict({"Content-Type": "application/json"}))

    def _find(self, client: SyncPrefectClient) -> Any:
        try:
            return client.read_block_document_by_name(self.block, self._slug)
        except ObjectNotFound:
            return None


CHANNELS = (
    Channel(name="webhook", variable="REASONLOOP_WEBHOOK_URL", payload=_PLAIN_JSON),
    Channel(name="slack", variable="REASONLOOP_SLACK_URL", payload=_SLACK_JSON),
    Channel(name="email", variable="REASONLOOP_EMAIL_URL", payload=None),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An automation."""

    name: str
    description: str
    trigger: EventTrigger
    own_action: ActionTypes | None = None
    """None: it notifies a person."""

    @property
    def title(self) -> str:
        """Name in the table of `reasonloop deploy`."""
        return f"automation {self.name}"

    def state(self, client: SyncPrefectClient) -> State:
        """Compare the server's automation with the wanted one; disabled in the UI is no difference."""
        found = self._find(client)
        if found is None:
            return "missing"
        wanted = self._wanted(client, enabled=found.enabled)
        return "same" if _comparable(found) == _comparable(wanted) else "different"

    def write(self, client: SyncPrefectClient) -> None:
        """Create or change it."""
        found = self._find(client)
        if found is None:
            client.create_automation(self._wanted(client, enabled=True))
        else:
            client.update_automation(found.id, self._wanted(client, enabled=found.enabled))

    def remove(self, client: SyncPrefectClient) -> bool:
        """Delete it."""
        found = self._find(client)
        if found is None:
            return False
        client.delete_automation(found.id)
        return True

    def _wanted(self, client: SyncPrefectClient, *, enabled: bool) -> AutomationCore:
        notify = [action for channel in CHANNELS if (action := channel.action(client))]
        actions = [self.own_action] if self.own_action else notify or [DoNothing()]
        return AutomationCore(
            name=self.name,
            description=self.description,
            enabled=enabled,
            trigger=self.trigger,
            actions=actions,
        )

    def _find(self, client: SyncPrefectClient) -> Automation | None:
        return next(iter(client.read_automations_by_name(self.name)), None)


def _comparable(automation: AutomationCore) -> dict[str, Any]:
    return automation.model_dump(include={"description", "trigger", "actions"})


_TAGGED: ResourceSpecificationDict = {
    "prefect.resource.role": "tag",
    "prefect.resource.id": f"prefect.tag.{RUN_TAG}",
}
_ANY_RUN: ResourceSpecificationDict = {"prefect.resource.id": "prefect.flow-run.*"}


_DEPLOYED: ResourceSpecificationDict = {
    "prefect.resource.role": "deployment",
    "prefect.resource.id": "prefect.deployment.*",
}


def _states(*names: str) -> set[str]:
    """The events of a run that reaches one of the states."""
    return {f"prefect.flow-run.{name}" for name in names}


def _ended(*states: str) -> EventTrigger:
    """A run of a deployment reaches one of ``states``; its subflows and the runs of commands do not count.

    It fires once a run in `QUIET`: under load Prefect has marked a run as crashed twice.
    """
    return EventTrigger(
        expect=_states(*states),
        match=_ANY_RUN,
        match_related=[_TAGGED, _DEPLOYED],
        for_each={"prefect.resource.id"},
        within=QUIET,
        posture=Posture.Reactive,
        threshold=1,
    )


def _crash(message: str) -> ChangeFlowRunState:
    return ChangeFlowRunState(name="Crashed", state=StateType.CRASHED, force=False, message=message)


_HEARTBEAT = "prefect.flow-run.heartbeat"
ALERTS = (
    Alert(
        name="reasonloop failed runs",
        description="Notifies when a run of a deployment has failed.",
        trigger=_ended("Failed", "TimedOut"),
    ),
    Alert(
        name="reasonloop crashed runs",
        description="Notifies when the process of a deployment's run has died.",
        trigger=_ended("Crashed"),
    ),
    Alert(
        name="reasonloop zombie runs",
        description=f"Marks runs without {MISSED} heartbeats as crashed.",
        trigger=EventTrigger(
            after={_HEARTBEAT},
            expect={_HEARTBEAT} | _states(*_ENDS),
            match=_ANY_RUN,
            match_related=_TAGGED,
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=MISSED * HEARTBEAT_S),
        ),
        own_action=_crash(f"no heartbeat for {MISSED * HEARTBEAT_S} s"),
    ),
    Alert(
        name="reasonloop runs that do not start",
        description=f"Marks runs as crashed that a worker has claimed {PENDING_S} s ago and not started.",
        trigger=EventTrigger(
            after=_states("Pending"),
            expect=_states(*_LEAVES_PENDING),
            match=_ANY_RUN,
            match_related=[_TAGGED, _DEPLOYED],
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=PENDING_S),
        ),
        own_action=_crash(f"claimed by a worker, and not started for {PENDING_S} s"),
    ),
)
