"""LoRA adapters of a running engine: loaded, replaced and verified over HTTP.

An adapter is served as ``name@version``, so a request for an unloaded version is refused by the
server instead of being answered with other weights. The folder's digest is taken at the first load:
after a restart of the engine the same bytes are loaded again, or nothing.
"""

import contextlib
import json
import pathlib
import re
from dataclasses import dataclass, field

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.known.engine import AdapterRoutes
from pipeline_lib.engines.launch.probes import NoAnswerError, Probes
from pipeline_lib.errors import BadInputError, ReasonloopError, errors_at

_CONFIG = "adapter_config.json"
# Not allowed: a colon ends the base's name in SGLang, and @ separates name and version here.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One version of an adapter, as of its first load."""

    name: str
    version: str
    folder: pathlib.Path
    rank: int
    digest: str

    @property
    def full_name(self) -> str:
        """Its model name at the server."""
        return f"{self.name}@{self.version}"


@dataclass
class LoadedAdapters:
    """The adapters loaded in one engine; at most one version of a name."""

    routes: AdapterRoutes
    probes: Probes
    base: str
    """The base model's name."""
    max_rank: int
    """Of the adapters that the engine was started for."""
    timeout_s: float
    _by_name: dict[str, Adapter] = field(init=False, default_factory=dict)

    def read(self, name: str, folder: pathlib.Path, version: str) -> Adapter:
        """As `read_adapter`; BadInputError also if the engine cannot load it."""
        adapter = read_adapter(name, folder, version)
        if adapter.rank > self.max_rank:
            raise BadInputError(
                f"adapter {adapter.full_name} has rank {adapter.rank}; the engine was started for "
                f"{self.max_rank} at most"
            )
        present = self._by_name.get(name)
        if present and present.version == version and present.digest != adapter.digest:
            raise BadInputError(
                f"adapter {adapter.full_name} is loaded with other weights; give these a new version"
            )
        return adapter

    def swap(self, adapter: Adapter) -> None:
        """Load an adapter, then unload the version that it replaces. Raises as `load` does."""
        old = self._by_name.get(adapter.name)
        try:
            self.load(adapter)
        except BaseException:
            # A load that was accepted but not verified must not stay at the server.
            if old is None or old.full_name != adapter.full_name:
                with contextlib.suppress(ReasonloopError, NoAnswerError):
                    self._unload(adapter)
            raise
        self._by_name[adapter.name] = adapter
        if old is not None and old.version != adapter.version:
            self._unload(old)

    def reload(self) -> None:
        """Load all adapters into a restarted engine. Raises as `load` does."""
        for adapter in self._by_name.values():
            self.load(adapter)

    def load(self, adapter: Adapter) -> None:
        """Load an adapter; verify that the server lists it and draws a token with it.

        Raises:
            NoAnswerError: the server refused, or did not answer.
            ReasonloopError: the folder has changed since its first load, or the server does not list it.
        """
        if model_identity(str(adapter.folder)) != adapter.digest:
            raise ReasonloopError(
                f"adapter {adapter.full_name}: {adapter.folder} has changed since this version was "
                "first loaded; give changed weights a new version and a folder of their own"
            )
        if adapter.full_name not in self.probes.models():
            body = {"lora_name": adapter.full_name, "lora_path": str(adapter.folder)}
            self.probes.post(self.routes.load, body, timeout_s=self.timeout_s)
        if adapter.full_name not in self.probes.models():
            raise ReasonloopError(
                f"adapter {adapter.full_name}: {self.probes.base_url} accepted it but does not list it"
            )
        self.probes.draw_token(self.request_model(adapter), timeout_s=self.timeout_s)

    def _unload(self, adapter: Adapter) -> None:
        if adapter.full_name in self.probes.models():
            body = {"lora_name": adapter.full_name}
            self.probes.post(self.routes.unload, body, timeout_s=self.timeout_s)

    def request_model(self, adapter: Adapter) -> str:
        """The model name of requests to the adapter."""
        return self.routes.request_model.format(base=self.base, adapter=adapter.full_name)


def read_adapter(name: str, folder: pathlib.Path, version: str) -> Adapter:
    """The adapter in ``folder``, with its digest.

    Raises:
        BadInputError: an invalid name or version, or ``folder`` is not a PEFT adapter.
    """
    for what, text in (("name", name), ("version", version)):
        if not _NAME.fullmatch(text):
            raise BadInputError(f"adapter {what} {text!r}: only letters, digits, '_', '.' and '-'")
    config = folder / _CONFIG
    wrong = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)
    fault, remedy = f"no rank can be read from {config}", "give a PEFT adapter's folder"
    with errors_at(f"adapter {name}", *wrong, fault=fault, remedy=remedy):
        rank = int(json.loads(config.read_text("utf-8"))["r"])
    where = folder.resolve()
    digest = model_identity(str(where))
    return Adapter(name=name, version=version, folder=where, rank=rank, digest=digest)
