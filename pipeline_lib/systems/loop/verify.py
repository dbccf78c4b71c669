"""Verification: judge the paths of each shard, seal the table of verdicts."""

from collections import Counter
from collections.abc import Sequence

from pipeline_lib.errors import CorruptArtifactError
from pipeline_lib.records import Path, Problem
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.store.reuse import Rows, make_shard
from pipeline_lib.systems.loop.draw import Draw, Shard
from pipeline_lib.verify.dispatch import judge_paths, pooled_verifier, verdict_rows

_KIND = "verdicts"


def plan_shards(draw: Draw, *, sealed: bool = True) -> list[Shard[Draw]]:
    """The shards of the table of paths, which is ``sealed``, or is still drawn."""
    if sealed:
        num_shards = len(manifests.read_manifest(draw.folders.paths).files)
    else:
        rows = int(manifests.read_manifest(draw.problems).counts["rows"])
        num_shards = -(-rows // draw.sample.shard_size)
    return [Shard(draw=draw, index=index, num_shards=num_shards) for index in range(num_shards)]


def verify(shard: Shard[Draw]) -> None:
    """Judge one shard, unless its verdicts exist under the same key."""
    draw, table = shard.draw, shard.draw.folders.paths

    def judged_rows() -> Rows:
        paths = [Path.from_row(row) for row in shards.read_shard(table, shard.index)]
        with pooled_verifier(draw.run.params.verify) as verifier:
            verdicts = judge_paths(paths, _problems(shard, paths), verifier)
        counts = Counter(verdict.status.value for verdict in verdicts)
        for place, name in enumerate(("prompt_tokens", "completion_tokens")):
            counts[name] = sum(verdict.judge_tokens[place] for verdict in verdicts)
        return Rows(rows=verdict_rows(paths, verdicts), counts=+counts)

    # Verdicts depend on the paths of the shard, on the golds and on the verifier.
    inputs = {
        "paths": shards.shard_manifest(table, shard.index).digest,
        "problems": manifests.read_manifest(draw.problems).digest,
    }
    key = stage_key(__name__, params=draw.run.params.verify.model_dump(), inputs=inputs)
    make_shard(shard.unit("verify", key), draw.folders.verdicts, kind=_KIND, rows=judged_rows)


def _problems(shard: Shard[Draw], paths: Sequence[Path]) -> list[Problem]:
    """The problems of a shard's paths: a slice, since all shards but the last have equally many.

    Raises:
        CorruptArtifactError: the table does not hold them there.
    """
    table = shard.draw.problems
    drawn = {path.problem_id for path in paths}
    start = shard.index * len(drawn)
    if shard.index == shard.num_shards - 1:
        start = int(manifests.read_manifest(table).counts["rows"]) - len(drawn)
    rows = shards.read_slice(table, start, start + len(drawn))
    problems = [Problem.from_row(row) for row in rows]
    if unknown := drawn - {problem.id for problem in problems}:
        raise CorruptArtifactError(
            f"{table}: problem {min(unknown)!r} of {shard.draw.folders.paths} is not there; run the stage "
            "sample again"
        )
    return problems


def seal(judged: Sequence[Shard[Draw]]) -> Manifest:
    """Write the table's manifest, once all shards exist."""
    draw = judged[0].draw
    key = stage_key(
        __name__,
        params=draw.run.params.verify.model_dump(),
        inputs={"paths": manifests.read_manifest(draw.folders.paths).digest},
    )
    return shards.seal_table(draw.folders.verdicts, judged[0].num_shards, kind=_KIND, key=key)
