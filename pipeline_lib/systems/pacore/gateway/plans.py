"""From the model name and fields of a request to its params; fields beat names."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipeline_lib.engines.server.errors import ApiError
from pipeline_lib.engines.server.responses import Json
from pipeline_lib.params.pacore import PRESETS, PacoreParams
from pipeline_lib.systems.pacore.gateway.schemas import PLAIN, GatewayRequest

_OWNER = "reasonloop"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNames:
    """The engine's model, plain and with each preset."""

    base: str
    """As given by the user; the engine's own name may contain a digest of the weights."""
    root: str
    """The engine's own name."""
    context_tokens: int | None
    _since: int = field(init=False, default_factory=lambda: int(datetime.now(UTC).timestamp()))

    def cards(self) -> list[Json]:
        """The entries of ``/v1/models``, the plain model first."""
        plain = {
            "object": "model",
            "created": self._since,
            "owned_by": _OWNER,
            "root": self.root,
            "max_model_len": self.context_tokens,
        }
        names = (self.base, *(f"{self.base}:{preset}" for preset in PRESETS))
        return [
            {"id": name, **plain, "parent": None if name == self.base else self.base}
            for name in names
        ]

    def preset(self, name: str | None) -> str | None:
        """The preset that a name ends in; None for the plain model.

        Raises:
            ApiError: 404; no such model.
        """
        if name is None or name == self.base:
            return None
        model, _, preset = name.rpartition(":")
        if model == self.base and preset in PRESETS:
            return preset
        served = ", ".join(card["id"] for card in self.cards())
        raise ApiError(
            404,
            f"the model {name} does not exist; served are: {served}",
            param="model",
            code="model_not_found",
        )


def request_params(body: GatewayRequest, preset: str | None, params: PacoreParams) -> PacoreParams:
    """``params`` with the rounds and the sampling of a request.

    A request that names neither a preset nor ``pacore`` is one plain call.
    """
    return params.model_copy(update=_rounds(body, preset) | _sampling(body))


def _rounds(body: GatewayRequest, preset: str | None) -> dict[str, Any]:
    if preset is None and body.reasoning_effort != PLAIN:
        preset = body.reasoning_effort
    own = body.pacore
    widths = own.widths if own else None
    if widths is None and preset is not None:
        widths = PRESETS[preset]
    if widths is None and own is None:
        widths = ()
    changes: dict[str, Any] = {} if widths is None else {"widths": widths, "rsa": None}
    return changes | ({"compaction": own.compaction} if own and own.compaction else {})


def _sampling(body: GatewayRequest) -> dict[str, Any]:
    given = {name: getattr(body, name) for name in ("temperature", "top_p")}
    changes: dict[str, Any] = {
        name: value for name, value in given.items() if name in body.model_fields_set
    }
    if "temperature" in changes:
        changes["last_temperature"] = None  # the request's own holds for all calls
    limit = body.wanted_tokens
    return changes | ({"max_new_tokens": limit} if limit is not None else {})
