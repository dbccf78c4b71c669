"""The gateway's server, in the process that supervises the engine or finds the workers."""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import uvicorn

from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.server.uvicorn_config import uvicorn_config
from pipeline_lib.params.pacore import PacoreParams
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.pacore.gateway.app import Routes, make_app
from pipeline_lib.systems.pacore.gateway.metrics import GatewayMetrics
from pipeline_lib.systems.pacore.gateway.plans import ModelNames
from pipeline_lib.systems.pacore.gateway.solving import Solver
from pipeline_lib.systems.pacore.gateway.upstream import Upstream
from pipeline_lib.systems.pacore.rounds import Setting
from pipeline_lib.systems.pacore.settings import make_setting
from pipeline_lib.systems.pacore.worker_pool import WorkerPool
from pipeline_lib.verify.dispatch import Verifier, open_verifier

_POLL_S = 0.1


def run_gateway(
    model: OpenAIModel | WorkerPool,
    params: Params,
    listener: socket.socket,
    *,
    name: str,
    on_start: Callable[[], None],
    follow: Callable[[], None],
) -> None:
    """Serve until SIGTERM or SIGINT, in the main thread; both are raised again afterwards.

    Args:
        model: Client of the engine, or the pool of its workers.
        params: Rounds, and the limit of requests in flight.
        listener: A bound socket.
        name: Of the plain model in requests.
        on_start: Called once requests are accepted.
        follow: Called every tenth of a second from then on; an exception ends the server.

    Raises:
        BadInputError: the model has no chat template.
        EngineDownError: the engine does not answer at the start.
    """
    with open_verifier(params.verify) as verifier:
        # Without a template this raises, before the first request.
        make_setting(model, params.pacore, verifier, seed=0)
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="rounds") as worker:
            gateway = _Gateway(
                name=name, model=model, params=params, verifier=verifier, worker=worker
            )
            asyncio.run(gateway.serve(listener, on_start=on_start, follow=follow))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gateway:
    name: str
    model: OpenAIModel | WorkerPool
    params: Params
    verifier: Verifier
    worker: ThreadPoolExecutor

    async def serve(
        self,
        listener: socket.socket,
        *,
        on_start: Callable[[], None],
        follow: Callable[[], None],
    ) -> None:
        async with self.model.open() as upstream:
            routes = self._routes(upstream)
            server = uvicorn.Server(uvicorn_config(make_app(routes)))
            following = asyncio.create_task(
                _follow(server, routes.solver, on_start=on_start, follow=follow)
            )
            try:
                # In this task: it raises a signal again when it has ended.
                await server.serve([listener])
                if following.done():
                    following.result()
            finally:
                following.cancel()

    def _routes(self, upstream: Upstream) -> Routes:
        model = self.model
        pool = model if isinstance(model, WorkerPool) else None
        metrics = GatewayMetrics(
            model_name=self.name,
            most_in_flight=self.params.pacore.max_requests,
            retries=lambda: upstream.retries,
            calls_by_worker=pool.calls_in_use if pool else None,
        )
        return Routes(
            solver=Solver(upstream=upstream, metrics=metrics, worker=self.worker),
            names=_names(self.name, model),
            params=self.params.pacore,
            setting_of=self._setting,
            metrics=metrics,
        )

    def _setting(self, params: PacoreParams, seed: int, answers: int) -> Setting:
        return make_setting(self.model, params, self.verifier, seed=seed, answers=answers)


def _names(base: str, model: OpenAIModel | WorkerPool) -> ModelNames:
    if isinstance(model, WorkerPool):
        return ModelNames(base=base, root=model.served[0].name, context_tokens=None)
    return ModelNames(base=base, root=model.endpoint.model, context_tokens=model.context_tokens)


async def _follow(
    server: uvicorn.Server,
    solver: Solver,
    *,
    on_start: Callable[[], None],
    follow: Callable[[], None],
) -> None:
    """Announce the start, then poll, until a signal or a failure ends the server."""
    announced = False
    try:
        while not server.should_exit:
            if server.started and not announced:
                on_start()
                announced = True
            if announced:
                follow()
            await asyncio.sleep(_POLL_S)
    finally:
        # Before the server gives up on its open requests, and breaks their connections.
        solver.stop()
        server.should_exit = True
