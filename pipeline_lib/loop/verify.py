"""Verification: judge the paths of each shard, seal the table of verdicts."""

import pathlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from prefect import task

from pipeline_lib.cpu_time import shard_meter
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Path, Problem
from pipeline_lib.storage import manifests, shards
from pipeline_lib.storage.manifests import Manifest
from pipeline_lib.storage.stages import stage_key
from pipeline_lib.telemetry import record_work
from pipeline_lib.verification.judged_paths import KIND, judge_paths, verdict_counts, verdict_rows
from pipeline_lib.verification.kept_verifiers import kept_verifier
from tasks.policies import PLAN, SHARD


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyShard:
    """One shard of paths to be judged, and where its verdicts go."""

    workspace: pathlib.Path
    stage: str
    label: str
    """What the progress of this shard's table is called."""
    problems: pathlib.Path
    paths: pathlib.Path
    output: pathlib.Path
    params: VerifyParams
    index: int
    num_shards: int

    def key(self) -> str:
        """The verdicts of a shard depend on its paths, on the golds and on the verifier."""
        inputs = {
            "paths": shards.shard_manifest(self.paths, self.index).digest,
            "problems": manifests.read_manifest(self.problems).digest,
        }
        return stage_key(__name__, params=self.params.model_dump(), inputs=inputs)


@task(**SHARD, task_run_name="verify-shard-{shard.index:03d}")
def verify_shard(shard: VerifyShard) -> VerifyShard:
    """Judge one shard, unless its verdicts are there already."""
    key = shard.key()
    if not shards.finished_shard(shard.output, shard.index, kind=KIND, key=key):
        start = time.perf_counter()
        paths = [Path.from_row(row) for row in shards.read_shard(shard.paths, shard.index)]
        problems = [Problem.from_row(row) for row in shards.iter_table(shard.problems)]
        with shard_meter().block() as block, kept_verifier(shard.params) as verifier:
            verdicts = judge_paths(paths, problems, verifier)
        counts = verdict_counts(verdicts)
        rows = verdict_rows(paths, verdicts)
        shards.write_shard(shard.output, shard.index, rows, kind=KIND, key=key, counts=counts)
        record_work(
            shard.workspace,
            shard.stage,
            done=shard.index + 1,
            total=shard.num_shards,
            label=shard.label,
            worker_seconds=time.perf_counter() - start,
            slowest_seconds=max(verdict.seconds for verdict in verdicts),
            key=key,
            cpu_seconds=block.cpu_seconds,
        )
    return shard


@task(**PLAN, task_run_name="seal-verdicts")
def seal_verdicts(done: Sequence[VerifyShard]) -> Manifest:
    """Write the table's manifest once all shards are there."""
    first = done[0]
    key = stage_key(
        __name__,
        params=first.params.model_dump(),
        inputs={"paths": manifests.read_manifest(first.paths).digest},
    )
    return shards.seal_table(first.output, first.num_shards, kind=KIND, key=key)
