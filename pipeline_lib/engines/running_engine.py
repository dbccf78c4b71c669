"""The rollout engine of a run: a supervised one, or a server that already runs.

For the flow's process: an engine started by a Ray task would die, or leak, with its worker.
"""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pipeline_lib.engines.identity import Endpoint, is_path
from pipeline_lib.engines.known.table import check_installed, engine_named
from pipeline_lib.engines.launch.probes import NoAnswerError, Probes
from pipeline_lib.engines.launch.supervised import SupervisedEngine, start_supervised
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.environment import environment
from pipeline_lib.params.serve import ServeParams


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedEngine:
    """A server that runs elsewhere, in the form of a `SupervisedEngine`."""

    endpoint: Endpoint
    restarts: int = 0
    restart_reasons: tuple[str, ...] = ()

    def check(self) -> None:
        """Nothing is supervised: clients see their own failures."""

    def load_adapter(self, name: str, folder: pathlib.Path, version: str) -> Endpoint:
        """Always refused. BadInputError: an external server loads its adapters itself."""
        raise BadInputError(
            f"adapter {name}@{version} ({folder}): adapters cannot be loaded at "
            f"{self.endpoint.base_url}; serve it there and set serve.model to its name"
        )


RunningEngine = SupervisedEngine | AttachedEngine


@contextmanager
def serving_engine(
    serve: ServeParams,
    *,
    model: str,
    log_folder: pathlib.Path,
    lora_rank: int | None = None,
) -> Iterator[RunningEngine]:
    """A working engine for the duration of the block; no process of it is left afterwards.

    Args:
        serve: The engine, its port or address, and its timeouts.
        model: A Hugging Face folder or hub id; ignored by a server that already runs.
        log_folder: For the log of the engine.
        lora_rank: Largest rank of LoRA adapters; None: there will be none.

    Raises:
        BadInputError: no such model, the engine is not installed, or it does not serve ``serve.model``.
        ReasonloopError: the engine does not start, or was given up during the block.
    """
    check_installed(serve)
    kind = engine_named(serve.engine)
    if kind.is_external:
        yield attach(serve, by_chat=serve.tokenizer is None)
        return
    check_model(model)
    engine = start_supervised(kind, serve, model=model, lora_rank=lora_rank, log_folder=log_folder)
    try:
        yield engine
        engine.check()
    except Exception as error:
        # Errors of clients are consequences of the engine's failure, if there is one.
        if engine.failure not in {None, error}:
            engine.check()
        raise
    finally:
        engine.stop()


def check_model(model: str) -> None:
    """BadInputError unless a model is a folder, or can be a hub id: NAME or OWNER/NAME."""
    if is_path(model) and not pathlib.Path(model).is_dir():
        raise BadInputError(f"model {model}: no such folder; give one, or a hub id")


def attach(serve: ServeParams, *, by_chat: bool, key: str = "serve") -> AttachedEngine:
    """The server at ``serve.url``, after it has drawn a token by its chat or its completion route.

    Errors are about the params ``key``.

    Raises:
        BadInputError: ``serve.model`` is not served, or is null while several models are.
        ReasonloopError: the server does not answer.
    """
    assert serve.url is not None  # by `check_installed`
    probes = probes_of(serve.url, serve.api_key_env)
    try:
        model = model_name(serve.model, probes.models(), key=key, url=serve.url)
        probes.draw_token(model, timeout_s=serve.start_timeout_s, by_chat=by_chat)
    except NoAnswerError as error:
        raise ReasonloopError(f"{key}.url: {probes.masked(error)}") from None
    endpoint = Endpoint(engine=serve.engine, base_url=probes.base_url, model=model, identity=model)
    return AttachedEngine(endpoint=endpoint)


def probes_of(url: str, api_key_env: str) -> Probes:
    """Probes of a server that runs elsewhere, with the key of an environment variable."""
    # Stripped: httpx quotes a malformed header in its error.
    key = (environment(api_key_env) or "").strip()
    return Probes(
        base_url=url.rstrip("/"),
        headers={"Authorization": f"Bearer {key}"} if key else {},
        through_proxy=True,
    )


def model_name(wanted: str | None, served: list[str], *, key: str, url: str) -> str:
    """``wanted``, or the only model that is served; BadInputError about the params ``key`` if there is none."""
    if wanted is not None and wanted in served:
        return wanted
    if wanted is None and len(served) == 1:
        return served[0]
    fault = f"does not serve {wanted}" if wanted else "does not serve exactly one model"
    raise BadInputError(f"{key}.model: {url} {fault}; it serves {', '.join(served) or 'none'}")
