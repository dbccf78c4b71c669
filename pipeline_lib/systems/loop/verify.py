"""Verification: judge the paths of each shard, seal the table of verdicts."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline_lib.errors import CorruptArtifactError
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Path, Problem
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.store.reuse import Rows, Unit, make_shard
from pipeline_lib.verify.judged_paths import KIND, judge_paths, verdict_counts, verdict_rows
from pipeline_lib.verify.pooled_verifiers import pooled_verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPlan:
    """A table of paths to judge, and the folder of its verdicts."""

    workspace: pathlib.Path
    stage: str
    """The stage that the verdicts belong to: "verify" or "evaluate"."""
    label: str
    """Name of the progress bar."""
    problems: pathlib.Path
    paths: pathlib.Path
    output: pathlib.Path
    params: VerifyParams


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyShard:
    """One shard of a plan."""

    plan: VerifyPlan
    index: int
    num_shards: int

    def key(self) -> str:
        """The verdicts of a shard depend on its paths, on the golds and on the verifier."""
        plan = self.plan
        inputs = {
            "paths": shards.shard_manifest(plan.paths, self.index).digest,
            "problems": manifests.read_manifest(plan.problems).digest,
        }
        return stage_key(__name__, params=plan.params.model_dump(), inputs=inputs)


def plan_shards(plan: VerifyPlan) -> list[VerifyShard]:
    """The shards of the sealed table of paths."""
    num_shards = len(manifests.read_manifest(plan.paths).files)
    return [
        VerifyShard(plan=plan, index=index, num_shards=num_shards) for index in range(num_shards)
    ]


def verify(shard: VerifyShard) -> None:
    """Judge one shard, unless its verdicts exist under the same key."""
    plan = shard.plan

    def judge() -> Rows:
        paths = [Path.from_row(row) for row in shards.read_shard(plan.paths, shard.index)]
        with pooled_verifier(plan.params) as verifier:
            verdicts = judge_paths(paths, _problems(shard, paths), verifier)
        return Rows(rows=verdict_rows(paths, verdicts), counts=verdict_counts(verdicts))

    unit = Unit(
        workspace=plan.workspace,
        stage=plan.stage,
        key=shard.key(),
        index=shard.index,
        total=shard.num_shards,
        label=plan.label,
    )
    make_shard(unit, plan.output, kind=KIND, rows=judge)


def _problems(shard: VerifyShard, paths: Sequence[Path]) -> list[Problem]:
    """The problems of a shard's paths: a slice, since all shards but the last have equally many.

    Raises:
        CorruptArtifactError: the table does not hold them there.
    """
    table = shard.plan.problems
    drawn = {path.problem_id for path in paths}
    start = shard.index * len(drawn)
    if shard.index == shard.num_shards - 1:
        start = int(manifests.read_manifest(table).counts["rows"]) - len(drawn)
    rows = shards.read_slice(table, start, start + len(drawn))
    problems = [Problem.from_row(row) for row in rows]
    if unknown := drawn - {problem.id for problem in problems}:
        raise CorruptArtifactError(
            f"{table}: problem {min(unknown)!r} of {shard.plan.paths} is not there; run the stage "
            "sample again"
        )
    return problems


def seal(judged: Sequence[VerifyShard]) -> Manifest:
    """Write the table's manifest, once all shards exist."""
    plan = judged[0].plan
    key = stage_key(
        __name__,
        params=plan.params.model_dump(),
        inputs={"paths": manifests.read_manifest(plan.paths).digest},
    )
    return shards.seal_table(plan.output, judged[0].num_shards, kind=KIND, key=key)
