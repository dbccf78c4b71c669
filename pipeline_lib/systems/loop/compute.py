"""Compute of a finished run: tokens from manifests, seconds and memory from telemetry events."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline_lib.sampling.accounting import engine_time
from pipeline_lib.store import manifests
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.store.shards import shard_manifests
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import EMPTY, count, known_duration
from pipeline_lib.study.study import Study
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.telemetry import Event, read_events, stage_peaks, stage_seconds, total_seconds
from pipeline_lib.train.token_budget import WEIGHT_COUNTS, weights_text

_STAGES = [stage.name for stage in LOOP.stages[:-1]]
"""All but the report itself."""


def read_compute(
    workspace: Workspace, *, rounds: int, drawn: Sequence[str], control: bool
) -> dict[str, Any]:
    """Compute of the current results of a workspace; repeated work counts in seconds.

    Args:
        workspace: of a finished run.
        rounds: of the run.
        drawn: names of the draws of the evaluation.
        control: whether a control of its own was trained.

    Returns:
        ``loop`` (sampling, verifying, training, all rounds) and ``control`` (None without one): seconds, trained
        tokens (once per forward and backward pass), sampled tokens with their prompts, trained and all weights.
        Seconds are of the run's processes and its verifiers, without servers, and None if part of the work was not
        done in this workspace: DVC brings results from a remote or into the temporary folder of an experiment, but
        no events. ``seconds``, ``peak_mib`` (of the largest process) and ``tokens``, those of a model that judges
        included, are by stage; stages may overlap.
    """
    events = read_events(workspace.root)
    names = {f"round-{number}" for number in range(1, rounds + 1)}
    # Rounds of an earlier, longer run are left out.
    own = [event for event in events if event.get("draw") in {None, *names}]
    seconds, peaks = stage_seconds(own), stage_peaks(own)
    trained = manifests.read_manifest(workspace.control) if control else None
    rounds_drawn = [workspace.round_folders(number + 1) for number in range(rounds)]
    evaluated = [workspace.evaluation(name) for name in drawn]
    tokens = {
        "sample": _tokens(one.paths for one in rounds_drawn),
        "verify": _tokens(one.verdicts for one in rounds_drawn),
        "evaluate": _tokens(table for one in evaluated for table in (one.paths, one.verdicts)),
    }
    return {
        "loop": _loop(workspace, events, rounds=rounds),
        "control": trained and _spent(events, [trained], [trained]),
        "seconds": {
            **{stage: seconds[stage] for stage in _STAGES if stage in seconds},
            "total": total_seconds([event for event in own if event.get("stage") in _STAGES]),
        },
        "peak_mib": {stage: peak for stage, peak in peaks.items() if stage in _STAGES},
        "tokens": {stage: spent for stage, spent in tokens.items() if any(spent.values())},
    }


def _loop(workspace: Workspace, events: Sequence[Event], *, rounds: int) -> dict[str, Any]:
    numbers = range(1, rounds + 1)
    draws = [workspace.round_folders(number) for number in numbers]
    tables = [manifests.read_manifest(draw.paths) for draw in draws]
    policies = [
        manifests.read_manifest(workspace.policy(number, rounds=rounds)) for number in numbers
    ]
    verdicts = (
        shard for draw in draws for shard in shard_manifests(draw.verdicts, kind="verdicts")
    )
    spent = _spent(events, [*tables, *policies, *verdicts], policies)
    drawn = sum(
        table.counts["prompt_tokens"] + table.counts["completion_tokens"] for table in tables
    )
    # Workers share an engine, so its seconds are not the sum of theirs.
    names = {f"round-{number}" for number in numbers}
    _, drawing = engine_time(event for event in events if event.get("draw") in names)
    gpu = spent["gpu_seconds"]
    return spent | {
        "gpu_seconds": None if gpu is None else gpu + drawing,
        "drawn_tokens": spent["drawn_tokens"] + int(drawn),
    }


def _spent(
    events: Sequence[Event], results: Sequence[Manifest], policies: Sequence[Manifest]
) -> dict[str, Any]:
    keys = {result.key for result in results}
    own = [event for event in events if event.get("key") in keys]
    is_recorded = {event["key"] for event in own} == keys
    last = policies[-1].counts
    return {
        **{
            name: sum(float(event.get(name, 0)) for event in own) if is_recorded else None
            for name in ("cpu_seconds", "gpu_seconds")
        },
        **{
            name: int(sum(policy.counts[name] for policy in policies))
            for name in ("trained_tokens", "drawn_tokens")
        },
        **{name: int(last[name]) for name in WEIGHT_COUNTS if name in last},
    }


def _tokens(tables: Iterable[pathlib.Path]) -> dict[str, int]:
    counts = [manifests.read_manifest(table).counts for table in tables]
    return {
        kind: int(sum(count.get(f"{kind}_tokens", 0) for count in counts))
        for kind in ("prompt", "completion")
    }


def compute_tables(study: Study) -> list[Table]:
    """Compute, time, tokens and memory of a finished run, from `Study.compute`."""
    return [spent_table(study.compute), cost_table(study.compute)]


def spent_table(compute: Mapping[str, Any]) -> Table:
    """Seconds and tokens of loop and control."""
    each = {name: compute[name] for name in ("loop", "control") if compute[name]}
    rows = (
        ("CPU time", "cpu_seconds", known_duration),
        ("GPU time", "gpu_seconds", known_duration),
        ("trained tokens", "trained_tokens", count),
        ("sampled tokens", "drawn_tokens", count),
    )
    return Table(
        caption="Compute of the loop (sampling, verifying, training) and of the control",
        columns=("what", *each),
        rows=(
            *((title, *(shown(each[arm][name]) for arm in each)) for title, name, shown in rows),
            ("trained weights", *(weights_text(spent) or EMPTY for spent in each.values())),
        ),
    )


def cost_table(compute: Mapping[str, Any]) -> Table:
    """Seconds, tokens and peak memory by stage; stages may overlap, so the total is not a sum."""
    seconds, tokens, peaks = (dict(compute[name]) for name in ("seconds", "tokens", "peak_mib"))
    stages = [stage for stage in _STAGES if stage in seconds or stage in tokens]
    tokens["total"] = {
        kind: sum(spent[kind] for spent in tokens.values()) for kind in ("prompt", "completion")
    }
    peaks["total"] = max(peaks.values(), default=None)
    return Table(
        caption="Time, tokens and memory of the largest process by stage (stages may overlap)",
        columns=("stage", "time", "prompt tokens", "completion tokens", "peak memory"),
        rows=tuple(
            (
                stage,
                known_duration(seconds.get(stage)),
                *(
                    count(tokens[stage][kind]) if stage in tokens else EMPTY
                    for kind in ("prompt", "completion")
                ),
                f"{count(peak)} MiB" if (peak := peaks.get(stage)) is not None else EMPTY,
            )
            for stage in (*stages, "total")
        ),
    )
