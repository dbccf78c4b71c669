"""Connection to one OpenAI-compatible server: API key, list of models, error messages, the wait in an outage."""

import asyncio
import time
from dataclasses import dataclass, field

from openai import (
    APIConnectionError,
    APIStatusError,
    AsyncOpenAI,
    DefaultAsyncHttpxClient,
    OpenAIError,
    Timeout,
)

from pipeline_lib.engines.client.response_parsing import BadResponseError, parse_models
from pipeline_lib.engines.identity import Endpoint
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.environment import environment
from pipeline_lib.params.serve import ServeParams

# 0.5 + 1 + 2 s in total: longer than a dying engine takes to close its port.
_RETRIES = 3
# 40 s in total: hosted servers limit rates, not always with a Retry-After.
_EXTERNAL_RETRIES = 8
_CONNECT_TIMEOUT_S = 10.0
_POLL_S = 0.5
_POLL_TIMEOUT_S = 5.0
# A restarted engine answers shortly before its adapter is loaded again.
_ADAPTER_GRACE_S = 10.0
# An external server is expected to run already.
_EXTERNAL_PATIENCE_S = 5.0
_WRONG_ADDRESS = {400, 401, 403, 404, 405}
_MODELS_SHOWN = 5
_ERROR_CHARACTERS = 500
_NO_KEY = "none"


class EngineDownError(ReasonloopError):
    """The engine does not answer and was not restarted in time. Finished shards are kept."""


@dataclass(kw_only=True)
class Connection:
    """Connections to the server of ``endpoint``, and since when it has not answered.

    One request polls on behalf of all. Patience is counted from the first failure, so that requests which
    come later, or have waited for others, do not wait the whole time again.
    """

    endpoint: Endpoint
    serve: ServeParams
    retries: int = 0
    """Requests that were sent once more after a restart."""
    client: AsyncOpenAI = field(init=False)
    """A pool of connections; at the exit of its block they close, and servers stop generating."""
    _since: float | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        # Sent to external servers only. Stripped: HTTP errors quote a malformed header.
        key = environment(self.serve.api_key_env) if self.is_external else None
        self._key = (key or _NO_KEY).strip()
        self.client = AsyncOpenAI(
            base_url=self.endpoint.base_url,
            api_key=self._key,
            max_retries=_EXTERNAL_RETRIES if self.is_external else _RETRIES,
            # `session` sets one deadline over all retries.
            timeout=Timeout(None, connect=_CONNECT_TIMEOUT_S),
            # A proxy of the environment would be used even for 127.0.0.1.
            http_client=DefaultAsyncHttpxClient(trust_env=self.is_external),
        )

    @property
    def is_external(self) -> bool:
        """True if the server is neither started nor stopped here."""
        return engine_named(self.endpoint.engine).is_external

    async def await_server(self) -> str:
        """`await_model` with the patience for a restart, or little for an external server."""
        patience_s = _EXTERNAL_PATIENCE_S if self.is_external else self.serve.start_timeout_s
        return await self.await_model(patience_s=patience_s)

    async def await_model(self, *, patience_s: float) -> str:
        """Wait until the server lists the endpoint's model; returns the model's owner.

        Raises:
            BadInputError: the server refuses the request or does not serve the model.
            EngineDownError: no usable response within ``patience_s``.
        """
        probe = self.client.with_options(max_retries=0, timeout=_POLL_TIMEOUT_S)
        start = time.monotonic()
        listed_since: float | None = None
        while True:
            try:
                response = await probe.models.with_raw_response.list()
                models = parse_models(response.content)
            except (OpenAIError, BadResponseError) as error:
                self._raise_if_wrong_address(error)
                listed_since, problem = None, self.describe(error)
            else:
                # SGLang lists an adapter by its name, while requests name base:adapter.
                for name in (self.endpoint.model, self.endpoint.adapter):
                    if name in models:
                        self.end_outage()
                        return models[name]
                listed_since = listed_since or time.monotonic()
                problem = f"it serves {', '.join([*models][:_MODELS_SHOWN]) or 'nothing'}"
            now = time.monotonic()
            grace_s = 0.0 if self.is_external else _ADAPTER_GRACE_S
            if listed_since is not None and now - listed_since >= grace_s:
                raise BadInputError(
                    f"{self.endpoint.base_url}: {problem}, not {self.endpoint.model}; correct "
                    "serve.model, or draw with the version that is loaded"
                )
            if listed_since is None and now - start > patience_s:
                raise EngineDownError(
                    f"{self.endpoint.base_url}: no usable answer for {patience_s:g} s ({problem}); "
                    "start the engine and run again, finished shards are kept"
                )
            await asyncio.sleep(_POLL_S)

    def _raise_if_wrong_address(self, error: Exception) -> None:
        if isinstance(error, APIStatusError) and error.status_code in _WRONG_ADDRESS:
            raise BadInputError(
                f"{self.endpoint.base_url}/models: {self.describe(error)}; correct serve.url, which "
                f"ends in /v1, or the key in the variable {self.serve.api_key_env}"
            ) from None

    def describe(self, error: Exception) -> str:
        """The error in one line, without the API key, which some servers quote."""
        match error:
            case APIStatusError(status_code=status, body={"message": str(message)}):
                text = f"status {status}: {message}"
            case APIStatusError(status_code=status, response=response):
                text = f"status {status}: {response.text or response.reason_phrase}"
            case APIConnectionError(__cause__=cause):
                text = f"the connection failed: {cause or error}"
            case TimeoutError():
                text = (
                    f"no answer within {self.serve.request_timeout_s:g} s; "
                    "raise serve.request_timeout_s"
                )
            case _:
                text = str(error)
        if self._key != _NO_KEY:
            text = text.replace(self._key, "***")
        return " ".join(text.split())[:_ERROR_CHARACTERS]

    async def admit(self) -> None:
        """Return unless patience with the engine has ended; then one probe instead of a request's retries."""
        if self._since is not None and self._patience_s == 0:
            await self.await_model(patience_s=0.0)

    async def await_restart(self) -> None:
        """As `await_model`, after a request failed: within what is left of ``serve.start_timeout_s``."""
        self._since = self._since or time.monotonic()
        async with self._lock:
            await self.await_model(patience_s=self._patience_s)
        self.retries += 1

    @property
    def _patience_s(self) -> float:
        """Remaining seconds until a request fails at once."""
        now = time.monotonic()
        return max(0.0, self.serve.start_timeout_s - (now - (self._since or now)))

    def end_outage(self) -> None:
        """The engine has answered."""
        self._since = None
