"""Sealed paths and verdicts of a run as messages, shard by shard.

A path is a line that `reasonloop verify` reads, a verdict is what `reasonloop stream verify` sends for
it. The id is DRAW/PROBLEM#INDEX. Sent again, every message is the same.
"""

import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError, CorruptArtifactError
from pipeline_lib.publish.streams.kafka import Header, Sender, encoded, key_of
from pipeline_lib.records import Path, Problem, Row
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.manifests import MANIFEST_NAME
from pipeline_lib.store.workspace import DrawFolders, Workspace
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.lines import path_line, verdict_row


@dataclass(slots=True, kw_only=True)
class Published:
    """Acknowledged messages."""

    paths: int = 0
    verdicts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draw:
    """Paths that were drawn together."""

    name: str
    split: str
    folders: DrawFolders

    def path_id(self, path: Path) -> str:
        return f"{self.name}/{path.id}"

    def num_shards(self) -> int:
        return len(manifests.read_manifest(self.folders.paths).files)


def publish_run(
    workspace: Workspace,
    sender: Sender,
    *,
    paths_to: str,
    verdicts_to: str,
    on_shard: Callable[[int, int], None] = lambda _done, _total: None,
) -> Published:
    """Send all sealed paths and verdicts to two topics; the messages of a shard are acknowledged before the next.

    ``on_shard`` is called with the number of shards done and of all shards.

    Raises:
        BadInputError: nothing is sealed, or a file differs from its manifest.
        ReasonloopError: the brokers do not accept a message.
    """
    todo = [(draw, index) for draw in _draws(workspace) for index in range(draw.num_shards())]
    if not todo:
        raise BadInputError(f"{workspace.root}: no sealed paths; make them with `reasonloop run`")
    problems = {
        split: {p["id"]: Problem.from_row(p) for p in shards.iter_table(workspace.problems(split))}
        for split in {draw.split for draw, _ in todo}
    }
    sent = Published()
    for done, (draw, index) in enumerate(todo, start=1):
        headers: list[Header] = [("draw", draw.name.encode()), ("shard", str(index).encode())]
        paths = [Path.from_row(row) for row in shards.read_shard(draw.folders.paths, index)]
        verdicts = _verdicts(draw, index, paths)
        asked = problems[draw.split]
        lines = (
            {**path_line(path, asked[path.problem_id]), "id": draw.path_id(path)} for path in paths
        )
        _send_all(sender, paths_to, lines, headers)
        _send_all(sender, verdicts_to, verdicts, headers)
        sender.flush()
        sent.paths += len(paths)
        sent.verdicts += len(verdicts)
        on_shard(done, len(todo))
    return sent


def _draws(workspace: Workspace) -> Iterator[_Draw]:
    """The draws whose paths are sealed: all rounds, then the evaluated policies."""
    number = 1
    while _is_sealed((folders := workspace.round_folders(number)).paths):
        yield _Draw(name=f"round-{number}", split="train", folders=folders)
        number += 1
    evaluations = workspace.evaluation_result.parent
    for found in sorted(evaluations.glob(f"*/paths/{MANIFEST_NAME}")):
        policy = found.parents[1].name
        folders = workspace.evaluation(policy)
        yield _Draw(name=f"evaluate-{policy}", split="test", folders=folders)


def _is_sealed(table: pathlib.Path) -> bool:
    return (table / MANIFEST_NAME).is_file()


def _verdicts(draw: _Draw, index: int, paths: Sequence[Path]) -> list[Row]:
    """The verdicts on the paths of a shard; none if the table is not sealed."""
    table = draw.folders.verdicts
    if not _is_sealed(table):
        return []
    rows = shards.read_shard(table, index)
    if [(row["problem_id"], row["index"]) for row in rows] != [
        (path.problem_id, path.index) for path in paths
    ]:
        raise CorruptArtifactError(f"{table}: verdicts on other paths; run `reasonloop run` again")
    return [
        verdict_row(draw.path_id(path), Verdict.from_row(row))
        for path, row in zip(paths, rows, strict=True)
    ]


def _send_all(sender: Sender, topic: str, rows: Iterable[Row], headers: list[Header]) -> None:
    for row in rows:
        value = encoded(row)
        if not sender.send(topic, key=key_of(row["id"]), value=value, headers=headers):
            raise BadInputError(
                f"{row['id']}: {len(value)} bytes; raise message.max.bytes in --config"
            )
