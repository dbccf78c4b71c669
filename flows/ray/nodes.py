"""Checks of a Ray that runs: what its nodes see, and what they can give."""

import pathlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray import cloudpickle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from flows.ray import node_probe
from flows.ray.node_probe import NodeReport, ProbeRequest
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
    content = secrets.token_hex(16)
    file = root / f".probe-{content[:8]}"
    write_text(file, content)
    try:
        request = ProbeRequest(str(root), str(file), content, api_url, node_probe.versions())
        own = node_probe.inspect_node(request)
        reports = _ask(living_nodes(), request)
    finally:
        file.unlink(missing_ok=True)
    for node, report in reports.items():
        if report.problem:
            raise ReasonloopError(f"node {node} of the Ray cluster {report.problem}")
    return all(report.code == own.code for report in reports.values())


def _ask(nodes: Sequence[Node], request: ProbeRequest) -> dict[str, NodeReport]:
    """The report of each node, by its address and id."""
    cloudpickle.register_pickle_by_value(node_probe)  # type: ignore[no-untyped-call]
    try:
        inspect = ray.remote(num_cpus=0, max_retries=0)(node_probe.inspect_node)
        asked = {}
        for node in nodes:
            here = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
            reference = inspect.options(scheduling_strategy=here).remote(request)
            asked[f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})"] = reference
        ray.wait([*asked.values()], num_returns=len(asked), timeout=NODE_TIMEOUT_S)
        return {name: _report(name, reference) for name, reference in asked.items()}
    finally:
        cloudpickle.unregister_pickle_by_value(node_probe)  # type: ignore[no-untyped-call]


def _report(name: str, reference: Any) -> NodeReport:
    try:
        report: NodeReport = ray.get(reference, timeout=1.0)
    except ray.exceptions.RayError as error:  # also if it has not answered in time
        raise ReasonloopError(
            f"node {name} of the Ray cluster cannot run a task, or has not answered for "
            f"{NODE_TIMEOUT_S:.0f} s ({reason_of(error)}); repair it, or take it out of the cluster"
        ) from error
    return report


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
        _check_given(f"execution.resources.{kind}", wanted, nodes)


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
