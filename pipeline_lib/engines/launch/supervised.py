"""A supervised engine: started, watched, restarted after failures, stopped.

One thread watches. After a crash (the process is gone) or a hang (see `watchdog`) the engine is
killed with all its processes and started on the same port with the same adapters, so clients only
have to retry. After too many restarts the engine is given up, and `check` raises.
"""

import pathlib
import socket
import threading
import time
from dataclasses import dataclass, field, replace

from pipeline_lib.engines.identity import Endpoint, model_identity
from pipeline_lib.engines.known.engine import Engine, ServedModel
from pipeline_lib.engines.launch.adapters import LoadedAdapters
from pipeline_lib.engines.launch.probes import (
    NoAnswerError,
    PortTakenError,
    RefusedError,
    StartCancelledError,
    Watchdog,
    lease_port,
    local_probes,
    wait_until_ready,
)
from pipeline_lib.engines.launch.process import EngineProcess
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.serve import ServeParams

MAX_RESTARTS = 3
"""Per engine. A more frequent failure has a cause that a restart does not fix."""
_PORTS_TRIED = 5
_CRASH_POLL_S = 0.25
_DYING_S = 3.0
"""An engine that is going down may answer with errors for this long before its process ends."""


@dataclass(kw_only=True, eq=False)
class SupervisedEngine:
    """An engine that is started here."""

    kind: Engine
    serve: ServeParams
    served: ServedModel
    lease: socket.socket
    """Of its port."""
    log: pathlib.Path
    """The engine's output."""
    restarts: int = 0
    restart_reasons: tuple[str, ...] = ()
    """Causes of the restarts, oldest first."""
    failure: ReasonloopError | None = None
    _stopping: threading.Event = field(init=False, default_factory=threading.Event)
    _changing: threading.Lock = field(init=False, default_factory=threading.Lock)
    """Serializes restarts by the watcher thread and swaps by `load_adapter`."""
    _process: EngineProcess | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._probes = local_probes(self.served.port)
        self.endpoint = Endpoint(
            engine=self.kind.name,
            base_url=self._probes.base_url,
            model=self.served.name,
            identity=model_identity(self.served.model),
        )
        """Address and name of the base model; unchanged by restarts."""
        self._hang_timeout_s = self.kind.hang_timeout_s(self.serve)
        self._adapters: LoadedAdapters | None = None
        if self.kind.adapter_routes is not None and self.served.lora_rank is not None:
            self._adapters = LoadedAdapters(
                self.kind.adapter_routes,
                self._probes,
                base=self.served.name,
                max_rank=self.served.lora_rank,
                timeout_s=self.serve.start_timeout_s,
            )
        self._watcher = threading.Thread(target=self._watch, name="engine-watch", daemon=True)

    def check(self) -> None:
        """Raise the failure, a ReasonloopError, if the engine was given up."""
        if self.failure is not None:
            raise self.failure

    def start(self) -> None:
        """Start the engine, then the watcher thread. After a failure no process is left."""
        try:
            self._start_process()
        except BaseException:
            self.lease.close()
            raise
        self._watcher.start()

    def stop(self) -> None:
        """Stop the engine; idempotent. ReasonloopError: a process is left."""
        self._stopping.set()
        try:
            self._end_process()
            if self._watcher.is_alive():
                self._watcher.join()
                # The watcher may have started another process meanwhile.
                self._end_process()
        finally:
            self.lease.close()

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.stop()

    def _start_process(self) -> None:
        if model_identity(self.served.model) != self.endpoint.identity:
            raise ReasonloopError(f"{self.served.model} has changed since it was first served")
        assert self.kind.launch is not None
        launch = self.kind.launch(self.serve, self.served)
        process = self._process = EngineProcess(self.kind.name, launch, self.log)
        try:
            wait_until_ready(
                process,
                self.served,
                timeout_s=self.serve.start_timeout_s,
                stopping=self._stopping,
            )
            if self._adapters is not None:
                self._adapters.reload()
        except NoAnswerError as error:
            process.kill()
            raise ReasonloopError(f"adapters were not loaded again: {error}") from error
        except BaseException:
            process.kill()
            raise

    def _watch(self) -> None:
        try:
            while (reason := self._await_failure()) is not None:
                self.restart_reasons += (reason,)
                if not self._restart():
                    return
        except Exception as error:
            self.failure = ReasonloopError(f"the watcher of the engine failed: {error!r}")
            raise

    def _await_failure(self) -> str | None:
        """Wait for a crash or a hang and return its description; None once `stop` is called."""
        assert self._process is not None
        watchdog = Watchdog(
            self._probes,
            self.served.name,
            health_route=self.kind.health_route,
            hang_timeout_s=self._hang_timeout_s,
        )
        while not self._stopping.wait(_CRASH_POLL_S):
            if self._process.exit_code is not None:
                return f"it {self._process.exit_summary}"
            watchdog.poll()
            if watchdog.is_hung:
                return f"it hung: no token in {self._hang_timeout_s:g} s (serve.hang_timeout_s)"
        return None

    def _restart(self) -> bool:
        """Restart the engine; False if it was stopped or given up."""
        assert self._process is not None
        try:
            # Before the lock: this ends a swap that holds it and waits for the hung engine.
            self._process.kill()
            with self._changing:
                while self.restarts < MAX_RESTARTS and not self._stopping.is_set():
                    self.restarts += 1
                    try:
                        self._start_process()
                    except ReasonloopError as error:
                        self.restart_reasons += (str(error),)
                    else:
                        return True
        except StartCancelledError:
            return False
        except ReasonloopError as error:
            self.restart_reasons += (str(error),)
        self.failure = ReasonloopError(
            f"{self.kind.name} was given up after {self.restarts} restarts: {self.restart_reasons[-1]}"
        )
        return False

    def load_adapter(self, name: str, folder: pathlib.Path, version: str) -> Endpoint:
        """Serve a LoRA adapter as ``name@version``; another version of that name is unloaded.

        Raises:
            BadInputError: no adapter, or one that this engine cannot load.
            ReasonloopError: the engine refused it, or was given up.
        """
        if self._adapters is None:
            raise BadInputError(f"adapter {name}: the engine was started for its base model alone")
        adapter = self._adapters.read(name, folder, version)
        for may_retry in (True, False):
            self.check()
            restarts = self.restarts
            try:
                with self._changing:
                    self._adapters.swap(adapter)
                break
            except NoAnswerError as error:
                if not (may_retry and self._await_restart(restarts, error)):
                    raise ReasonloopError(
                        f"adapter {adapter.full_name} was not loaded: {error}"
                    ) from error
        return replace(
            self.endpoint,
            model=self._adapters.request_model(adapter),
            adapter=adapter.full_name,
        )

    def _await_restart(self, restarts: int, error: NoAnswerError) -> bool:
        """True if the engine restarts after a failed request, because it crashed or hung."""
        patience_s = self._hang_timeout_s + _DYING_S
        if isinstance(error, RefusedError):
            patience_s = _DYING_S if error.status >= 500 else 0.0
        deadline = time.monotonic() + patience_s
        while self.restarts == restarts and self.failure is None:
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
    """Start an engine on the first free port from ``serve.port`` on, and watch it.

    Raises:
        BadInputError: it is not installed, or cannot load adapters although ``lora_rank`` is given.
        ReasonloopError: the engine does not start; with the end of its log.
    """
    if lora_rank is not None and kind.adapter_routes is None:
        raise BadInputError(
            f"serve.engine={kind.name} cannot load LoRA adapters while it runs; merge the adapter "
            "into the model, or choose another engine"
        )
    first = serve.port
    for _ in range(_PORTS_TRIED):
        port, lease = lease_port(first)
        served = ServedModel(model=model, name=_served_name(model), port=port, lora_rank=lora_rank)
        log = log_folder / f"{kind.name}-{port}.log"
        engine = SupervisedEngine(kind=kind, serve=serve, served=served, lease=lease, log=log)
        try:
            engine.start()
        except PortTakenError:
            first = port + 1
            continue
        return engine
    raise ReasonloopError(
        f"{_PORTS_TRIED} ports from {serve.port} on were taken while the engine was starting; "
        "set serve.port to a quieter range"
    )


def _served_name(model: str) -> str:
    """The model's name with its digest, so that another run's engine refuses the request."""
    identity = model_identity(model)
    name = pathlib.PurePath(model).name
    return name if identity == model else f"{name}@{identity}"
