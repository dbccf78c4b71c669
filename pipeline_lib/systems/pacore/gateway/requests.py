"""Requests of the gateway: OpenAI's chat fields, the field ``pacore``, presets as suffixes of the model's name."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field, model_validator

from pipeline_lib.engines.chat_model import Message as Turn
from pipeline_lib.engines.chat_model import Role
from pipeline_lib.engines.server.responses import unknown_model
from pipeline_lib.engines.server.schemas import ChatRequest
from pipeline_lib.params.pacore import PRESETS, Compaction, PacoreParams
from pipeline_lib.params.sections import Count, Section

PLAIN = "none"
"""``reasoning_effort`` of one plain call."""
_MOST_CALLS = 1024
"""Of the widths of one request and its answers, summaries left out."""
_SEEDS_END = 2**63
"""The n last calls of a plain request have consecutive seeds."""
_MOST_ANSWERS = 128
"""OpenAI's limit of ``n``."""


class PacoreFields(Section):
    """Rounds of one request; a field that is left out is as in the server's params or preset."""

    widths: tuple[Count, ...] | None = Field(default=None, min_length=1)
    """Paths of each round; a last round with the answers follows."""
    compaction: Compaction | None = None


class GatewayRequest(ChatRequest):
    """Request of ``/v1/chat/completions``."""

    reasoning_effort: str | None = None
    pacore: PacoreFields | None = None

    @model_validator(mode="before")
    @classmethod
    def _drop_reasoning(cls, data: Any) -> Any:
        """Clients send back the messages that they received; earlier reasoning is no part of a prompt."""
        if not isinstance(data, dict) or not isinstance(data.get("messages"), list):
            return data
        return data | {"messages": [_without_reasoning(message) for message in data["messages"]]}

    @model_validator(mode="after")
    def _can_be_drawn(self) -> "GatewayRequest":
        if self.messages[-1].role != "user":
            raise ValueError("messages: the last one must be the user's")
        for field in ("logprobs", "top_logprobs", "return_token_ids"):
            if getattr(self, field):
                raise ValueError(f"{field} is not supported here; leave it out")
        if self.n > _MOST_ANSWERS:
            raise ValueError(f"n={self.n}; at most {_MOST_ANSWERS}")
        if self.seed is not None and self.seed + self.n > _SEEDS_END:
            raise ValueError(
                f"seed={self.seed}: the seeds of n={self.n} answers end above 2^63 - 1"
            )
        return self

    @model_validator(mode="after")
    def _rounds_can_be_drawn(self) -> "GatewayRequest":
        if self.reasoning_effort not in {None, PLAIN, *PRESETS}:
            raise ValueError(
                f"reasoning_effort={self.reasoning_effort}; give {', '.join((PLAIN, *PRESETS))}"
            )
        if self.reasoning_effort == PLAIN and self.pacore is not None:
            raise ValueError(f"reasoning_effort={PLAIN} is one plain call; leave out it, or pacore")
        widths = self.pacore.widths if self.pacore else None
        if widths is not None and (calls := sum(widths) + self.n) > _MOST_CALLS:
            raise ValueError(
                f"pacore.widths: {calls} calls with n={self.n} answers; at most {_MOST_CALLS}"
            )
        return self

    @property
    def conversation(self) -> list[Turn]:
        """The messages as turns."""
        return [
            Turn(
                role=Role.SYSTEM if turn.role == "developer" else Role(turn.role),
                content=turn.plain()["content"],
                name=turn.name,
            )
            for turn in self.messages
        ]

    def params(self, base: str, params: PacoreParams) -> PacoreParams:
        """``params`` with the rounds and the sampling of the request; its fields beat its model's name.

        A request that names neither a preset nor ``pacore`` is one plain call.

        Raises:
            ApiError: 404; the model is not ``base``, plain or with a preset.
        """
        return params.model_copy(update=self._rounds(base) | self._sampling())

    def _rounds(self, base: str) -> dict[str, Any]:
        preset, own = preset_of(self.model, base), self.pacore
        if preset is None and self.reasoning_effort != PLAIN:
            preset = self.reasoning_effort
        widths = own.widths if own else None
        if widths is None and preset is not None:
            widths = PRESETS[preset]
        if widths is None and own is None:
            widths = ()
        changes: dict[str, Any] = {} if widths is None else {"widths": widths, "rsa": None}
        return changes | ({"compaction": own.compaction} if own and own.compaction else {})

    def _sampling(self) -> dict[str, Any]:
        changes: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("temperature", "top_p")
            if name in self.model_fields_set
        }
        if "temperature" in changes:
            changes["last_temperature"] = None  # the request's own holds for all calls
        limit = self.wanted_tokens
        return changes | ({"max_new_tokens": limit} if limit is not None else {})


def _without_reasoning(message: Any) -> Any:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    return {name: value for name, value in message.items() if name != "reasoning_content"}


def served_names(base: str) -> Sequence[str]:
    """The plain model, and one name for each preset."""
    return (base, *(f"{base}:{preset}" for preset in PRESETS))


def preset_of(name: str | None, base: str) -> str | None:
    """The preset in which a model's name ends; None for the plain model. ApiError: 404; no such model."""
    if name is None or name == base:
        return None
    model, _, preset = name.rpartition(":")
    if model == base and preset in PRESETS:
        return preset
    raise unknown_model(name, served_names(base), param="model")
