"""The rollout engine of a run: started, watched and stopped here, or one that already runs.

For the process of the flow. An engine that a Ray task started would die or leak with its worker.
"""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.environment import environment
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.serving.endpoint import Endpoint
from pipeline_lib.serving.engines.table import check_engine, engine_named
from pipeline_lib.serving.supervisor.probes import NoAnswerError, Probes
from pipeline_lib.serving.supervisor.supervised import start_supervised


class RunningEngine(Protocol):
    """An engine that was seen to work."""

    @property
    def endpoint(self) -> Endpoint:
        """Where its model is asked; it stays the same over restarts."""
        ...

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        ...

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why it was, oldest first."""
        ...

    def check(self) -> None:
        """Raise the ReasonloopError for which the engine was given up, if it was."""
        ...

    def load_adapter(self, name: str, folder: pathlib.Path, version: str) -> Endpoint:
        """Serve a LoRA adapter as ``name@version``; another version of that name is unloaded."""
        ...

    def stop(self) -> None:
        """End all of it; a second time does nothing."""
        ...


@contextmanager
def serving_engine(
    serve: ServeParams,
    *,
    model: str,
    log_folder: pathlib.Path,
    lora: bool = False,
    max_lora_rank: int = 16,
) -> Iterator[RunningEngine]:
    """A working engine while the block runs; nothing of it is left afterwards.

    Args:
        serve: Which engine, and where.
        model: A Hugging Face folder or hub id; a server that already runs has its own.
        log_folder: Where the engine's output goes.
        lora: Whether adapters are to be loaded.
        max_lora_rank: The largest rank of them.

    Raises:
        BadInputError: no such model, no environment with the engine, no such name at the URL.
        ReasonloopError: the engine does not start, or had to be given up while the block ran.
    """
    check_engine(serve)
    kind = engine_named(serve.engine)
    if kind.is_external:
        yield attached_engine(serve)
        return
    _check_model(model)
    engine = start_supervised(
        kind, serve, model=model, lora_rank=max_lora_rank if lora else None, log_folder=log_folder
    )
    try:
        yield engine
        engine.check()
    except Exception as error:
        # What fails without its engine fails for that reason, whatever it says of it.
        _raise_failure(engine, error)
        raise
    finally:
        engine.stop()


def _raise_failure(engine: RunningEngine, error: Exception) -> None:
    try:
        engine.check()
    except ReasonloopError as failure:
        if failure is not error:
            raise failure from error


def _check_model(model: str) -> None:
    """A hub id is NAME or OWNER/NAME; all else must be a folder."""
    is_path = model.startswith((".", "/", "~")) or model.count("/") > 1
    if is_path and not pathlib.Path(model).is_dir():
        raise BadInputError(f"model {model}: no such folder; give one, or a hub id")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedEngine:
    """Implements RunningEngine for a server that somebody else runs."""

    endpoint: Endpoint
    restarts: int = 0
    troubles: tuple[str, ...] = ()

    def check(self) -> None:
        """Its life is not ours to judge: clients see their own failures."""

    def load_adapter(self, name: str, folder: pathlib.Path, version: str) -> Endpoint:
        """Refused: what a server of somebody else's serves is theirs to say."""
        raise BadInputError(
            f"adapter {name}@{version} ({folder}): adapters cannot be loaded at "
            f"{self.endpoint.base_url}; serve it there and set serve.model to its name"
        )

    def stop(self) -> None:
        """It goes on running."""


def attached_engine(serve: ServeParams) -> AttachedEngine:
    """The server at ``serve.url``, once it has drawn a token.

    Raises:
        BadInputError: it serves no model of that name, or several and none was named.
        ReasonloopError: it does not answer.
    """
    assert serve.url is not None  # `check_engine` sees to it
    # Stripped, since an error about a malformed header quotes it.
    key = (environment(serve.api_key_env) or "").strip()
    probes = Probes(
        base_url=serve.url.rstrip("/"),
        headers={"Authorization": f"Bearer {key}"} if key else {},
        through_proxy=True,
    )
    try:
        model = _named(serve, probes.models())
        by_chat = serve.tokenizer is None
        probes.one_token(model, timeout_s=serve.start_timeout_s, by_chat=by_chat)
    except NoAnswerError as error:
        said = str(error).replace(key, "***") if key else str(error)
        raise ReasonloopError(f"serve.url: {said}") from None
    endpoint = Endpoint(engine=serve.engine, base_url=probes.base_url, model=model, identity=model)
    return AttachedEngine(endpoint=endpoint)


def _named(serve: ServeParams, served: list[str]) -> str:
    if serve.model is not None and serve.model in served:
        return serve.model
    if serve.model is None and len(served) == 1:
        return served[0]
    wanted = f"serves no {serve.model}" if serve.model else "serves not exactly one model"
    raise BadInputError(f"serve.model: {serve.url} {wanted}, but {', '.join(served) or 'none'}")
