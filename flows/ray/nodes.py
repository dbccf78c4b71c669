"""Checks of a Ray that runs: what its nodes see, and what they can give."""

import pathlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray import cloudpickle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from flows.ray import node_probe
from flows.ray.node_probe import Question, Sight
from pipeline_lib.errors import BadInputError, ReasonloopError, reason_of
from pipeline_lib.params.whole import ExecutionParams, TaskResources
from pipeline_lib.store.files import write_text

NODE_TIMEOUT_S = 90.0
"""Longest wait for a node's answer; a worker must start there."""
_MIB = 2**20
Node = Mapping[str, Any]


def living_nodes() -> list[Node]:
    """The nodes that Ray lists as alive."""
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def num_gpus() -> float:
    """GPUs of all nodes; 0 where no Ray runs."""
    if not ray.is_initialized():
        return 0.0
    return float(ray.cluster_resources().get("GPU", 0))  # type: ignore[no-untyped-call]


def check_nodes(root: pathlib.Path, api_url: str) -> bool:
    """Ask every node for what it sees; False if one has another version of this package's code.

    Raises:
        ReasonloopError: a node cannot read or write the workspace, does not reach the Prefect server,
            has another version of a library, or does not answer.
    """
    with _probe(root, api_url) as question:
        own = node_probe.look(question)
        sights = _ask(living_nodes(), question)
    for node, sight in sights.items():
        if problem := _problem(own, sight, root=root, api_url=api_url):
            raise ReasonloopError(f"node {node} of the Ray cluster {problem}")
    return all(sight.code == own.code for sight in sights.values())


@contextmanager
def _probe(root: pathlib.Path, api_url: str) -> Iterator[Question]:
    """A file in the workspace, for the block."""
    content = secrets.token_hex(16)
    file = root / f".probe-{content[:8]}"
    write_text(file, content)
    try:
        yield Question(workspace=str(root), probe=str(file), content=content, api_url=api_url)
    finally:
        file.unlink(missing_ok=True)


def _ask(nodes: Sequence[Node], question: Question) -> dict[str, Sight]:
    """The sight of each node, by its address and id."""
    cloudpickle.register_pickle_by_value(node_probe)  # type: ignore[no-untyped-call]
    try:
        look = ray.remote(num_cpus=0, max_retries=0)(node_probe.look)
        asked = {}
        for node in nodes:
            here = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
            reference = look.options(scheduling_strategy=here).remote(question)
            asked[reference] = f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})"
        _, silent = ray.wait([*asked], num_returns=len(asked), timeout=NODE_TIMEOUT_S)
        if silent:
            raise ReasonloopError(
                f"node {asked[silent[0]]} of the Ray cluster has not answered for "
                f"{NODE_TIMEOUT_S:.0f} s; repair it, or take it out of the cluster"
            )
        return {name: _answer(name, reference) for reference, name in asked.items()}
    finally:
        cloudpickle.unregister_pickle_by_value(node_probe)  # type: ignore[no-untyped-call]


def _answer(name: str, reference: Any) -> Sight:
    try:
        sight: Sight = ray.get(reference)
    except ray.exceptions.RayError as error:
        raise ReasonloopError(
            f"node {name} of the Ray cluster cannot run a task ({reason_of(error)}); repair it, or "
            "take it out of the cluster"
        ) from error
    return sight


def _problem(own: Sight, sight: Sight, *, root: pathlib.Path, api_url: str) -> str | None:
    if sight.workspace_problem:
        return (
            f"does not share the workspace {root} ({sight.workspace_problem}); mount it there under "
            "the same path, or pass another --workspace"
        )
    if sight.server_problem:
        return (
            f"does not reach the Prefect server at {api_url} ({sight.server_problem}); set "
            "PREFECT_API_URL to an address that all nodes reach"
        )
    for name, version in own.versions.items():
        if sight.versions[name] != version:
            return (
                f"has {name} {sight.versions[name]}, and this machine {version}; install equal "
                "versions (requirements/app.txt of a clone)"
            )
    return None


def check_resources(execution: ExecutionParams) -> None:
    """Check that some node can give what each kind of task takes; Ray would wait for ever.

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
        if not any(_gives(node, wanted) for node in nodes):
            raise BadInputError(_refusal(f"execution.resources.{kind}", wanted, nodes))


def _wanted(wanted: TaskResources) -> dict[str, tuple[str, float]]:
    """Param and amount by Ray's names; megabytes are bytes there."""
    return {
        "CPU": ("num_cpus", wanted.num_cpus),
        "GPU": ("num_gpus", wanted.num_gpus or 0),
        "memory": ("memory_mb", (wanted.memory_mb or 0) * _MIB),
    }


def _gives(node: Mapping[str, float], wanted: TaskResources) -> bool:
    return all(node.get(name, 0) >= amount for name, (_, amount) in _wanted(wanted).items())


def _refusal(key: str, wanted: TaskResources, nodes: Sequence[Mapping[str, float]]) -> str:
    for name, (param, amount) in _wanted(wanted).items():
        most = max(node.get(name, 0) for node in nodes)
        if most < amount:
            unit = _MIB if name == "memory" else 1
            return (
                f"{key}.{param}={amount / unit:g}: the largest node of Ray has {most / unit:g}; "
                "ask for less, or add a node"
            )
    return f"{key}: no node of Ray has all of it at once; ask for less, or add a node"
