"""What loop and control of a run took: tokens by their manifests, seconds by the events of the run."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from pipeline_lib.sampling.accounting import engine_time
from pipeline_lib.storage import manifests
from pipeline_lib.storage.manifests import Manifest
from pipeline_lib.storage.shards import shard_manifests
from pipeline_lib.storage.workspace import Workspace
from pipeline_lib.telemetry import Event, read_events


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Compute of a training with all that it needs. Work that was done again counts again in seconds."""

    cpu_seconds: float
    """Of our own processes and what they start to judge; not of a server that draws."""
    gpu_seconds: float
    trained_tokens: int
    """Read forward and backward, each as often as it was read."""
    drawn_tokens: int
    """Sampled and judged, with their prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeSpent:
    """Of the loop (drawing, verifying, training, in all rounds) and of the control."""

    loop: Spent
    control: Spent | None


def compute_spent(workspace: Workspace, *, rounds: int, control: bool) -> ComputeSpent:
    """Read what the current results of a workspace took."""
    events = read_events(workspace.root)
    numbers = range(1, rounds + 1)
    draws = [workspace.round_folders(number) for number in numbers]
    tables = [manifests.read_manifest(draw.paths) for draw in draws]
    policies = [
        manifests.read_manifest(workspace.policy(number, rounds=rounds)) for number in numbers
    ]
    keys = {manifest.key for manifest in [*tables, *policies]}
    keys |= {
        shard.key for draw in draws for shard in shard_manifests(draw.verdicts, kind="verdicts")
    }
    drawn = sum(
        table.counts["prompt_tokens"] + table.counts["completion_tokens"] for table in tables
    )
    # Workers share a server, so their seconds of waiting for it do not add up.
    names = {f"round-{number}" for number in numbers}
    drawing = engine_time(event for event in events if event.get("draw") in names)
    loop = _spent(events, keys, policies)
    of_control = None
    if control:
        trained = manifests.read_manifest(workspace.control)
        of_control = _spent(events, {trained.key}, [trained])
    return ComputeSpent(
        loop=replace(
            loop,
            gpu_seconds=loop.gpu_seconds + drawing.gpu_seconds,
            drawn_tokens=loop.drawn_tokens + int(drawn),
        ),
        control=of_control,
    )


def _spent(events: Sequence[Event], keys: Set[str], policies: Sequence[Manifest]) -> Spent:
    own = [event for event in events if event.get("key") in keys]
    return Spent(
        cpu_seconds=sum(float(event.get("cpu_seconds", 0)) for event in own),
        gpu_seconds=sum(float(event.get("gpu_seconds", 0)) for event in own),
        trained_tokens=int(sum(policy.counts["trained_tokens"] for policy in policies)),
        drawn_tokens=int(sum(policy.counts["drawn_tokens"] for policy in policies)),
    )
