"""An engine that is started here, watched, started again when it fails, and stopped.

One thread watches. It takes a crash (the process is gone) and a hang (see `pulse`) alike: the engine
is killed with all its processes and started on the same port with the same adapters, so that clients
only have to ask again. After too many restarts it gives up, and says so to whoever asks.
"""

import pathlib
import threading
import time
from dataclasses import replace

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.serving.endpoint import Endpoint
from pipeline_lib.serving.engines.engine import Engine, Served
from pipeline_lib.serving.identity import model_identity
from pipeline_lib.serving.supervisor.adapters import LoadedAdapters
from pipeline_lib.serving.supervisor.ports import PortLease, lease_port
from pipeline_lib.serving.supervisor.probes import NoAnswerError, RefusedError
from pipeline_lib.serving.supervisor.process import EngineProcess
from pipeline_lib.serving.supervisor.readiness import (
    PortTakenError,
    UnwantedError,
    local_probes,
    wait_until_ready,
)
from pipeline_lib.serving.supervisor.watchdog import Pulse

MAX_RESTARTS = 3
"""In the life of one engine. What fails more often has a cause that a restart does not cure."""
_PORTS_TRIED = 5
_CRASH_POLL_S = 0.25
_DYING_S = 3.0
"""How long an engine that is dying may go on refusing before its process is gone."""


class SupervisedEngine:
    """Implements RunningEngine for an engine whose processes are ours."""

    def __init__(
        self,
        kind: Engine,
        serve: ServeParams,
        served: Served,
        *,
        lease: PortLease,
        log_folder: pathlib.Path,
    ) -> None:
        self._kind = kind
        self._serve = serve
        self._served = served
        self._lease = lease
        self._log = log_folder / f"{kind.name}-{served.port}.log"
        self._identity = model_identity(served.model)
        self._probes = local_probes(served.port)
        self._adapters = self._loadable_adapters()
        self._restarts = 0
        self._troubles: list[str] = []
        self._failure: ReasonloopError | None = None
        self._unwanted = threading.Event()
        # Held by whoever changes the engine: the watcher to restart it, `load_adapter` to swap.
        self._changing = threading.Lock()
        self._process: EngineProcess | None = None
        self._watcher = threading.Thread(target=self._watch, name="engine-watch", daemon=True)

    def _loadable_adapters(self) -> LoadedAdapters | None:
        """None for an engine that is started without adapters."""
        routes, max_rank = self._kind.adapter_routes, self._served.lora_rank
        if routes is None or max_rank is None:
            return None
        return LoadedAdapters(
            routes,
            self._probes,
            base=self._served.name,
            max_rank=max_rank,
            timeout_s=self._serve.start_timeout_s,
        )

    @property
    def endpoint(self) -> Endpoint:
        """The model itself, without an adapter."""
        return Endpoint(
            engine=self._kind.name,
            base_url=self._probes.base_url,
            model=self._served.name,
            identity=self._identity,
        )

    @property
    def restarts(self) -> int:
        """How often the engine was started again."""
        return self._restarts

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why it was, oldest first."""
        return tuple(self._troubles)

    @property
    def log(self) -> pathlib.Path:
        """What the engine prints."""
        return self._log

    @property
    def process_ids(self) -> list[int]:
        """Of all its processes."""
        return [child.pid for child in self._process.processes] if self._process else []

    def check(self) -> None:
        """Raise the ReasonloopError for which the engine was given up, if it was."""
        if self._failure is not None:
            raise self._failure

    def start(self) -> None:
        """Start the engine and the thread that watches it; if it fails, nothing is left of it."""
        try:
            self._start_process()
        except BaseException:
            self._lease.release()
            raise
        self._watcher.start()

    def stop(self) -> None:
        """End all of it; a second time does nothing.

        Raises:
            ReasonloopError: a process, or GPU memory that it held, is left.
        """
        self._unwanted.set()
        try:
            self._end_process()
            if self._watcher.is_alive():
                self._watcher.join()
                # The watcher may have been about to start another one.
                self._end_process()
        finally:
            self._lease.release()

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.stop()

    def _start_process(self) -> None:
        if model_identity(self._served.model) != self._identity:
            raise ReasonloopError(f"{self._served.model} has changed since it was first served")
        # An external engine is attached to, see `running_engine`.
        assert self._kind.launch is not None
        launch = self._kind.launch(self._serve, self._served)
        process = self._process = EngineProcess(self._kind.name, launch, self._log)
        try:
            wait_until_ready(
                process,
                self._served,
                timeout_s=self._serve.start_timeout_s,
                unwanted=self._unwanted,
            )
            if self._adapters is not None:
                self._adapters.load_again()
        except NoAnswerError as error:
            process.kill()
            raise ReasonloopError(f"adapters were not loaded again: {error}") from error
        except BaseException:
            process.kill()
            raise

    def _watch(self) -> None:
        try:
            while (trouble := self._next_trouble()) is not None:
                self._troubles.append(trouble)
                if not self._restart():
                    return
        except Exception as error:
            self._failure = ReasonloopError(f"nobody watches the engine any more: {error!r}")
            raise

    def _next_trouble(self) -> str | None:
        """What is wrong, once something is; None when the engine is no longer wanted."""
        assert self._process is not None
        pulse = Pulse(
            self._probes,
            self._served.name,
            health_route=self._kind.health_route,
            hang_timeout_s=self._serve.hang_timeout_s,
        )
        while not self._unwanted.wait(_CRASH_POLL_S):
            if self._process.exit_code is not None:
                return f"it {self._process.ending}"
            pulse.look()
            if pulse.hangs:
                return (
                    f"it hung: no token in {self._serve.hang_timeout_s:g} s (serve.hang_timeout_s)"
                )
        return None

    def _restart(self) -> bool:
        """Start it again, whether that succeeded; `check` raises after False."""
        assert self._process is not None
        try:
            # Before the lock: a swap that waits for an engine that hangs must be set free.
            self._process.kill()
            with self._changing:
                while self._restarts < MAX_RESTARTS and not self._unwanted.is_set():
                    self._restarts += 1
                    if self._started_again():
                        return True
        except UnwantedError:
            return False
        except ReasonloopError as error:
            self._troubles.append(str(error))
        self._failure = ReasonloopError(
            f"{self._kind.name} was given up after {self._restarts} restarts: {self._troubles[-1]}"
        )
        return False

    def _started_again(self) -> bool:
        try:
            self._start_process()
        except ReasonloopError as error:
            self._troubles.append(str(error))
            return False
        return True

    def load_adapter(self, name: str, folder: pathlib.Path, version: str) -> Endpoint:
        """Serve a LoRA adapter as ``name@version``; another version of that name is unloaded.

        Raises:
            BadInputError: no adapter, or one that this engine cannot take.
            ReasonloopError: the engine refused it, or was given up.
        """
        if self._adapters is None:
            raise BadInputError(f"adapter {name}: the engine was started for its base model alone")
        adapter = self._adapters.read(name, folder, version)
        for may_wait in (True, False):
            self.check()
            restarts = self._restarts
            try:
                with self._changing:
                    self._adapters.swap(adapter)
                break
            except NoAnswerError as error:
                if not (may_wait and self._restarts_soon(restarts, error)):
                    raise ReasonloopError(
                        f"adapter {adapter.full_name} was not loaded: {error}"
                    ) from error
        return replace(
            self.endpoint,
            model=self._adapters.request_model(adapter),
            adapter=adapter.full_name,
        )

    def _restarts_soon(self, restarts: int, error: NoAnswerError) -> bool:
        """Whether the failure of an order was that of an engine which is then started again."""
        patience_s = self._serve.hang_timeout_s + _DYING_S
        if isinstance(error, RefusedError):
            patience_s = _DYING_S if error.status >= 500 else 0.0
        deadline = time.monotonic() + patience_s
        while self._restarts == restarts and self._failure is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_CRASH_POLL_S)
        return True


def start_supervised(
    kind: Engine,
    serve: ServeParams,
    *,
    model: str,
    lora_rank: int | None,
    log_folder: pathlib.Path,
) -> SupervisedEngine:
    """Start an engine on the first port that is free, and watch it.

    Raises:
        BadInputError: the model is no folder, the engine's environment has not been made, or
            adapters are wanted of an engine that has no routes for them.
        ReasonloopError: the engine does not start; with its last words.
    """
    if lora_rank is not None and kind.adapter_routes is None:
        raise BadInputError(
            f"serve.engine={kind.name} cannot load LoRA adapters while it runs; merge the adapter "
            "into the model, or choose another engine"
        )
    first = serve.port
    for _ in range(_PORTS_TRIED):
        lease = lease_port(first)
        served = Served(model=model, name=_served_name(model), port=lease.port, lora_rank=lora_rank)
        engine = SupervisedEngine(kind, serve, served, lease=lease, log_folder=log_folder)
        try:
            engine.start()
        except PortTakenError:
            first = lease.port + 1
            continue
        return engine
    raise ReasonloopError(
        f"{_PORTS_TRIED} ports from {serve.port} on were taken while the engine was starting; "
        "set serve.port to a quieter range"
    )


def _served_name(model: str) -> str:
    """The name with the weights' digest: a request that reaches another run's engine is refused."""
    identity = model_identity(model)
    name = pathlib.PurePath(model).name
    return name if identity == model else f"{name}@{identity}"
