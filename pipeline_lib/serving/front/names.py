"""The names that requests may ask for: the base model's, and those of adapters."""

import asyncio
import pathlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool

from pipeline_lib.serving.front.async_engine import LiveEngine
from pipeline_lib.serving.front.errors import ApiError
from pipeline_lib.serving.front.schemas import LoadAdapterBody, UnloadAdapterBody

MAX_ADAPTERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Adapter:
    """One loaded adapter: where it came from, and what the engine calls it."""

    folder: str
    key: str


@dataclass(kw_only=True)
class ServedNames:
    """Resolves names, and keeps them while adapters come and go.

    A name is free again, or stands for new weights, as soon as the request that says so is
    answered; completions that began before that end under the weights that they began with.
    """

    live: LiveEngine
    base: str
    context_tokens: int | None
    _adapters: dict[str, _Adapter] = field(init=False, default_factory=dict)
    _loading: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    _since: int = field(init=False, default_factory=lambda: int(datetime.now(UTC).timestamp()))

    def adapter_of(self, name: str | None) -> str | None:
        """The engine's key of the adapter that a request names; None for the base.

        Raises:
            ApiError: 404; nothing of that name is served.
        """
        if name is None or name == self.base:
            return None
        return self._known(name, param="model").key

    async def load(self, body: LoadAdapterBody) -> None:
        """Serve an adapter under a name.

        Raises:
            ApiError: 400; the name is taken, or there are too many adapters.
            EngineGoneError: nothing is drawn any more.
            BadInputError: the folder holds no adapter for this model.
        """
        async with self._loading:
            if self.live.gone is not None:
                raise self.live.gone
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
            model = self.live.model
            adapter = await run_in_threadpool(model.read, folder)
            key = await self.live.call(partial(model.attach, adapter, source=folder))
            self._adapters[body.lora_name] = _Adapter(folder=body.lora_path, key=key)
            if before:
                self.live.retire(before.key)

    async def unload(self, body: UnloadAdapterBody) -> None:
        """Serve an adapter no longer.

        Raises:
            ApiError: 404; there is none of that name.
        """
        async with self._loading:
            adapter = self._known(body.lora_name, param="lora_name")
            del self._adapters[body.lora_name]
            self.live.retire(adapter.key)

    def _known(self, name: str, *, param: str) -> _Adapter:
        if name not in self._adapters:
            served = ", ".join([self.base, *self._adapters])
            raise ApiError(
                404,
                f"the model {name} does not exist; served are: {served}",
                param=param,
                code="model_not_found",
            )
        return self._adapters[name]

    def listed(self) -> list[dict[str, Any]]:
        """What ``/v1/models`` says, the base first."""
        cards = [self._card(self.base) | {"max_model_len": self.context_tokens}]
        for name, adapter in self._adapters.items():
            cards.append(self._card(name) | {"root": adapter.folder, "parent": self.base})
        return cards

    def _card(self, name: str) -> dict[str, Any]:
        owner = self.live.model.engine.engine
        return {"id": name, "object": "model", "created": self._since, "owned_by": owner}
