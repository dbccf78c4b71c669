"""Where a rollout engine answers, and what it serves. Plain data: it goes into tasks as it is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One served model, as a client sees it. Every field is plain text, so it survives JSON."""

    engine: str
    """"vllm", "sglang", "embedded" or "url": what stands behind the address."""
    base_url: str
    """With the version, as in ``http://127.0.0.1:8300/v1``."""
    model: str
    """The name that requests carry; under an adapter, the adapter's name."""
    identity: str
    """Digest of the served weights (`identity.model_identity`), or the model's id at a "url"."""
    adapter: str | None = None
    """``name@version`` of the LoRA adapter that ``model`` names, if it is one."""
