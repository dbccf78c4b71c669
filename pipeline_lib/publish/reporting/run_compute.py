"""Compute of loop and control of a run: tokens from manifests, seconds from telemetry events."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from pipeline_lib.sampling.accounting import engine_time
from pipeline_lib.store import manifests
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.store.shards import shard_manifests
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.telemetry import Event, read_events


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCompute:
    """Compute of a training with its sampling and verification; repeated work counts in seconds.

    Seconds are None if part of the work was not done in this workspace: DVC brings results from a remote
    or into the temporary folder of an experiment, but no events.
    """

    cpu_seconds: float | None
    """Of the run's processes and its verifiers; without servers."""
    gpu_seconds: float | None
    trained_tokens: int
    """Tokens of forward and backward passes, counted once per pass."""
    drawn_tokens: int
    """Sampled and verified tokens, including prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompute:
    """Compute of the loop (sampling, verifying, training, all rounds) and of the control."""

    loop: TrainingCompute
    control: TrainingCompute | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """Prompt and completion tokens of a stage."""

    prompt: int
    completion: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCosts:
    """Time, tokens and memory of a run by stage; stages may overlap."""

    seconds: Mapping[str, float]
    total_seconds: float
    """Seconds in which any stage ran."""
    tokens: Mapping[str, TokenCount]
    peaks_mib: Mapping[str, int]
    """Peak memory of the largest process."""


def read_run_compute(workspace: Workspace, *, rounds: int, control: bool) -> RunCompute:
    """Read the compute of the current results of a workspace."""
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
    # Workers share an engine, so its seconds are not the sum of theirs.
    names = {f"round-{number}" for number in numbers}
    drawing = engine_time(event for event in events if event.get("draw") in names)
    loop = _spent(events, keys, policies)
    of_control = None
    if control:
        trained = manifests.read_manifest(workspace.control)
        of_control = _spent(events, {trained.key}, [trained])
    return RunCompute(
        loop=replace(
            loop,
            gpu_seconds=None
            if loop.gpu_seconds is None
            else loop.gpu_seconds + drawing.gpu_seconds,
            drawn_tokens=loop.drawn_tokens + int(drawn),
        ),
        control=of_control,
    )


def _spent(
    events: Sequence[Event], keys: Set[str], policies: Sequence[Manifest]
) -> TrainingCompute:
    own = [event for event in events if event.get("key") in keys]
    recorded = {event["key"] for event in own} == keys

    def seconds(name: str) -> float | None:
        return sum(float(event.get(name, 0)) for event in own) if recorded else None

    return TrainingCompute(
        cpu_seconds=seconds("cpu_seconds"),
        gpu_seconds=seconds("gpu_seconds"),
        trained_tokens=int(sum(policy.counts["trained_tokens"] for policy in policies)),
        drawn_tokens=int(sum(policy.counts["drawn_tokens"] for policy in policies)),
    )
