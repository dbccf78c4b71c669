"""A Ray that runs: the connection to it, a watch over it, checks of what its nodes see and can give.

Without its processes Ray hangs for minutes before it raises. Of a Ray on this machine all processes are watched, of a
running cluster its address and the raylet that the run is connected to. Other nodes may go: their tasks are done on
the rest.
"""

import logging
import pathlib
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import psutil
import ray
from ray import cloudpickle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from flows.ray import node_probe
from flows.run.ray_address import check_ray_address, ray_address, ray_place
from flows.run.watch import (
    CHILDREN_POLL_S,
    SERVER_POLL_S,
    children_problem,
    processes_problem,
    silence_problem,
    watched,
)
from pipeline_lib.errors import BadInputError, ReasonloopError, reason_of
from pipeline_lib.params.whole import ExecutionParams, TaskResources
from pipeline_lib.store.files import write_text

_RAYLET = "raylet"
_PATIENCE_S = 30.0
"""Longest silence of a cluster; after a minute Ray ends the process with a hundred lines."""
NODE_TIMEOUT_S = 90.0
"""Longest wait for a node's answer; a worker must start there."""
_MIB = 2**20
Node = Mapping[str, Any]

QUIET: dict[str, Any] = {
    "namespace": "reasonloop",
    "log_to_driver": False,
    # Ray prints advice about its settings at each start.
    "logging_level": logging.ERROR,
}


@contextmanager
def ray_connection(failure: str, **options: Any) -> Iterator[None]:
    """Ray, by ``options`` of its ``init``, for the block; ``failure`` is a message with a place for the reason."""
    # Ray replaces the handler; with its own, SIGTERM would end the command with exit code 15.
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**QUIET, **options)
    except Exception as error:
        raise ReasonloopError(failure.format(reason_of(error))) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def ray_watched(execution: ExecutionParams) -> Iterator[None]:
    """End this process with one line and exit code 1 if Ray dies in the block; Ray is initialised."""
    if ray_address(execution) is None:
        with watched(children_problem({_RAYLET, "gcs_server"}), poll_s=CHILDREN_POLL_S):
            yield
        return
    with cluster_watched(f"the Ray cluster ({ray_place(execution)})", partial(_answers, execution)):
        yield


@contextmanager
def cluster_watched(name: str, answers: Callable[[], bool]) -> Iterator[None]:
    """End this process as `ray_watched` does if its raylet dies, or ``answers`` stays false; Ray is initialised."""
    raylet = processes_problem(_own_raylet())
    silence = silence_problem(name, answers, patience_s=_PATIENCE_S)
    with watched(raylet, poll_s=CHILDREN_POLL_S), watched(silence, poll_s=SERVER_POLL_S):
        yield


def _own_raylet() -> list[psutil.Process]:
    """The raylet of this process; none if that runs elsewhere (``ray://``)."""
    own = ray.get_runtime_context().get_node_id()
    sockets = [node["RayletSocketName"] for node in ray.nodes() if node["NodeID"] == own]  # type: ignore[no-untyped-call]
    return [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == _RAYLET
        and any(
            socket in argument for socket in sockets for argument in process.info["cmdline"] or []
        )
    ]


def _answers(execution: ExecutionParams) -> bool:
    try:
        check_ray_address(execution)
    except ReasonloopError:
        return False
    return True


def living_nodes() -> list[Node]:
    """The nodes that Ray lists as alive."""
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def num_gpus() -> float:
    """GPUs of all nodes; 0 where no Ray runs."""
    if not ray.is_initialized():
        return 0.0
    return float(ray.cluster_resources().get("GPU", 0))  # type: ignore[no-untyped-call]


def train_gpus(execution: ExecutionParams) -> float:
    """GPUs of one training process."""
    wanted = execution.resources.train.num_gpus
    return float(num_gpus() > 0) if wanted is None else wanted


def check_nodes(root: pathlib.Path, api_url: str) -> None:
    """Ask every node for what it sees.

    Raises:
        ReasonloopError: a node cannot read or write the workspace, does not reach the Prefect server,
            has another version of a library, or does not answer.
    """
    content = secrets.token_hex(16)
    file = root / f".probe-{content[:8]}"
    write_text(file, content)
    try:
        seen = (str(root), str(file), content, api_url, node_probe.versions())
        problems = _ask(living_nodes(), seen)
    finally:
        file.unlink(missing_ok=True)
    for node, problem in problems.items():
        if problem:
            raise ReasonloopError(f"node {node} of the Ray cluster {problem}")


def _ask(nodes: Sequence[Node], seen: tuple[Any, ...]) -> dict[str, str | None]:
    """The answers of `inspect_node`, by address and id of the node."""
    cloudpickle.register_pickle_by_value(node_probe)  # type: ignore[no-untyped-call]
    try:
        inspect = ray.remote(num_cpus=0, max_retries=0)(node_probe.inspect_node)
        asked = {}
        for node in nodes:
            here = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
            reference = inspect.options(scheduling_strategy=here).remote(*seen)
            asked[f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})"] = reference
        ray.wait([*asked.values()], num_returns=len(asked), timeout=NODE_TIMEOUT_S)
        return {name: _report(name, reference) for name, reference in asked.items()}
    finally:
        cloudpickle.unregister_pickle_by_value(node_probe)  # type: ignore[no-untyped-call]


def _report(name: str, reference: Any) -> str | None:
    try:
        problem: str | None = ray.get(reference, timeout=1.0)
    except ray.exceptions.RayError as error:  # also if it has not answered in time
        raise ReasonloopError(
            f"node {name} of the Ray cluster cannot run a task, or has not answered for "
            f"{NODE_TIMEOUT_S:.0f} s ({reason_of(error)}); repair it, or take it out of the cluster"
        ) from error
    return problem


def check_resources(execution: ExecutionParams, *, processes: int = 1) -> None:
    """Check that some node can give what each kind of task takes, and all what a training of ``processes`` does.

    Ray would wait for ever.

    Raises:
        BadInputError: none can.
    """
    nodes = [node["Resources"] for node in living_nodes()]
    kinds = execution.resources
    for kind, wanted in (
        ("sample", kinds.sample),
        ("verify", kinds.verify),
        ("train", kinds.train),
    ):
        _check_given(f"execution.resources.{kind}", wanted, nodes)
    train = kinds.train
    taken = {"CPU": train.num_cpus, "GPU": train_gpus(execution)}
    room = sum(
        min([processes, *(int(node.get(name, 0) // n) for name, n in taken.items() if n)])
        for node in nodes
    )
    if room < processes:
        raise BadInputError(
            f"a training of {processes} processes: Ray has room for {room} (execution.resources.train: "
            f"{train.num_cpus:g} CPUs and {taken['GPU']:g} GPUs each); set fewer, or add a node"
        )


def _check_given(key: str, wanted: TaskResources, nodes: Sequence[Mapping[str, float]]) -> None:
    # Ray's name, the name of the param, its amount, and Ray's units in one of the param's.
    amounts = (
        ("CPU", "num_cpus", wanted.num_cpus, 1),
        ("GPU", "num_gpus", wanted.num_gpus or 0, 1),
        ("memory", "memory_mb", wanted.memory_mb or 0, _MIB),
    )
    if any(all(node.get(name, 0) >= n * unit for name, _, n, unit in amounts) for node in nodes):
        return
    for name, param, amount, unit in amounts:
        most = max(node.get(name, 0) for node in nodes) / unit
        if most < amount:
            raise BadInputError(
                f"{key}.{param}={amount:g}: the largest node of Ray has {most:g}; "
                "ask for less, or add a node"
            )
    raise BadInputError(f"{key}: no node of Ray has all of it at once; ask for less, or add a node")
