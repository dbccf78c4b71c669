"""Model names of requests: the base, and the adapters by name."""

import asyncio
import pathlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool

from pipeline_lib.engines.embedded.async_engine import AsyncEngine
from pipeline_lib.engines.server.responses import ApiError, unknown_model
from pipeline_lib.engines.server.schemas import LoadAdapterRequest, UnloadAdapterRequest

MAX_ADAPTERS = 64


@dataclass(kw_only=True)
class ModelRegistry:
    """Resolves model names while adapters are loaded and unloaded.

    A change of a name takes effect with the response to its request; completions that began before
    end under the weights with which they began.
    """

    engine: AsyncEngine
    base: str
    context_tokens: int | None
    _adapters: dict[str, tuple[str, str]] = field(init=False, default_factory=dict)
    """Folder, and key in the engine, by name."""
    _loading: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    _since: int = field(init=False, default_factory=lambda: int(datetime.now(UTC).timestamp()))

    def resolve(self, name: str | None) -> str | None:
        """The engine's key of the adapter that a request names; None for the base.

        Raises:
            ApiError: 404; no model of that name is served.
        """
        if name is None or name == self.base:
            return None
        return self._key(name, param="model")

    async def load(self, body: LoadAdapterRequest) -> None:
        """Serve an adapter under a name.

        Raises:
            ApiError: 400; the name is taken, or there are too many adapters.
            EngineStoppedError: the engine has stopped.
            BadInputError: the folder is not an adapter of this model.
        """
        async with self._loading:
            if self.engine.stopped is not None:
                raise self.engine.stopped
            before = self._adapters.get(body.lora_name)
            if body.lora_name == self.base or (before and not body.load_inplace):
                raise ApiError(
                    400,
                    f"lora_name: {body.lora_name} is served already; give another name, or set "
                    "load_inplace to replace an adapter",
                    param="lora_name",
                )
            if not before and len(self._adapters) >= MAX_ADAPTERS:
                raise ApiError(
                    400, f"{MAX_ADAPTERS} adapters are loaded, the most there may be; unload one"
                )
            folder = pathlib.Path(body.lora_path)
            model = self.engine.model
            adapter = await run_in_threadpool(model.read, folder)
            key = await self.engine.call(partial(model.attach, adapter, source=folder))
            self._adapters[body.lora_name] = body.lora_path, key
            if before:
                self.engine.retire(before[1])

    async def unload(self, body: UnloadAdapterRequest) -> None:
        """Stop serving an adapter. ApiError: 404; no adapter of that name is served."""
        async with self._loading:
            key = self._key(body.lora_name, param="lora_name")
            del self._adapters[body.lora_name]
            self.engine.retire(key)

    def _key(self, name: str, *, param: str) -> str:
        if name not in self._adapters:
            raise unknown_model(name, [self.base, *self._adapters], param=param)
        return self._adapters[name][1]

    def list_models(self) -> list[dict[str, Any]]:
        """The entries of ``/v1/models``, the base first."""
        cards = [self._card(self.base) | {"max_model_len": self.context_tokens}]
        for name, (folder, _) in self._adapters.items():
            cards.append(self._card(name) | {"root": folder, "parent": self.base})
        return cards

    def _card(self, name: str) -> dict[str, Any]:
        owner = self.engine.model.base.engine
        return {"id": name, "object": "model", "created": self._since, "owned_by": owner}
