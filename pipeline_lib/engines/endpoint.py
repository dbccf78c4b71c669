"""Address and model of a rollout engine, as plain data that tasks can carry."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One served model. All fields are text, so it survives JSON."""

    engine: str
    """Name in `engines.table`."""
    base_url: str
    """With the API version, as in ``http://127.0.0.1:8300/v1``."""
    model: str
    """Model name of requests; the adapter's, if there is one."""
    identity: str
    """Digest of the served weights (`identity.model_identity`); of an external server the model's id."""
    adapter: str | None = None
    """``name@version`` of the LoRA adapter, or None."""
