"""Records of a run on topics."""

import json

import pytest

from pipeline_lib.errors import BadInputError, CorruptArtifactError, ReasonloopError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.publish.streams import publish_run
from pipeline_lib.records import Problem
from pipeline_lib.store import shards
from pipeline_lib.store.workspace import DrawFolders, Workspace
from pipeline_lib.verify.dispatch import Item, open_verifier, verdict_rows
from tests.unit.publish.topics import bridged
from tests.unit.study.judged_groups import judged_path

GOLD = CountdownGold(numbers=(3, 5), target=8)
TEXTS = ("3+5=8", "5+3=8", "3*5=15", "nothing")


def write_split(workspace: Workspace, split: str, prefix: str) -> list[str]:
    names = [f"{prefix}{number}" for number in range(3)]
    rows = [Problem(id=n, question="", gold=GOLD, source="s").row() for n in names]
    shards.write_table(workspace.problems(split), rows, kind="problems", key="k")
    return names


def write_draw(folders: DrawFolders, names: list[str], *, verdicts: bool = True) -> None:
    """One shard per problem, with four judged paths each."""
    for index, name in enumerate(names):
        paths = [judged_path(name, n, "c", text=text).path for n, text in enumerate(TEXTS)]
        shards.write_shard(folders.paths, index, [p.row() for p in paths], kind="paths", key="k")
        with open_verifier(VerifyParams()) as verifier:
            judged = verifier.judge([Item(gold=GOLD, text=path.text) for path in paths])
        rows = verdict_rows(paths, judged)
        shards.write_shard(folders.verdicts, index, rows, kind="verdicts", key="k")
    shards.seal_table(folders.paths, len(names), kind="paths", key="k")
    if verdicts:
        shards.seal_table(folders.verdicts, len(names), kind="verdicts", key="k")


@pytest.fixture
def workspace(tmp_path):
    """Two rounds and one evaluated policy; the verdicts of round 2 are not sealed."""
    found = Workspace(tmp_path)
    train, test = write_split(found, "train", "a"), write_split(found, "test", "b")
    write_draw(found.round_folders(1), train)
    write_draw(found.round_folders(2), train, verdicts=False)
    write_draw(found.evaluation("base"), test)
    return found


def publish(topics, workspace, token=""):
    names = (topics.make(f"paths{token}"), topics.make(f"verdicts{token}"))
    return names, publish_run(workspace, topics.cluster().sender(), *names)


@pytest.mark.slow
def test_published_paths_get_the_published_verdicts(topics, workspace):
    """36 paths by draw and shard; the bridge judges them to the published verdicts, byte for byte."""
    names, sent = publish(topics, workspace)
    assert sent == (36, 24)
    paths = topics.read(names[0])
    labels = {tuple(value.decode() for _, value in m.headers()) for m in paths}
    draws = ("round-1", "round-2", "evaluate-base")
    assert labels == {(draw, str(shard)) for draw in draws for shard in range(3)}
    assert all(m.key().decode() == json.loads(m.value())["id"] for m in paths)
    assert "evaluate-base/b2#3" in {m.key().decode() for m in paths}
    target = topics.make("judged")
    bridged(topics, names[0], target, until=lambda: topics.count(target) == 36)
    judged = {m.key(): m.value() for m in topics.read(target)}
    published = {m.key(): m.value() for m in topics.read(names[1])}
    assert len(published) == 24
    assert {key: judged[key] for key in published} == published


@pytest.mark.slow
def test_sent_again_it_is_the_same(topics, workspace):
    """Both times the same keys and values, so a compacted topic keeps one of each."""
    first, _ = publish(topics, workspace, "1")
    second, _ = publish(topics, workspace, "2")
    for pair in zip(first, second, strict=True):
        messages = [{m.key(): m.value() for m in topics.read(one)} for one in pair]
        assert messages[0] == messages[1]


def test_what_cannot_be_published(topics, workspace, tmp_path):
    """An empty workspace, a damaged shard, verdicts on other paths, and an oversized message."""
    with pytest.raises(BadInputError, match="no sealed paths"):
        publish(topics, Workspace(tmp_path / "empty"), "1")
    small = topics.cluster(**{"message.max.bytes": "1000"}).sender()
    long = workspace.evaluation("base")
    path = judged_path("b0", 0, "c", text="x" * 2000).path
    shards.write_table(long.paths, [path.row()], kind="paths", key="k")
    names = (topics.make("paths"), topics.make("verdicts"))
    with pytest.raises(CorruptArtifactError, match="verdicts on other paths"):
        publish_run(workspace, small, *names)
    (long.verdicts / "manifest.json").unlink()
    with pytest.raises(BadInputError, match=r"evaluate-base/b0#0: \d+ bytes; raise message.max"):
        publish_run(workspace, small, *names)
    (workspace.round_folders(1).paths / "part-00001.parquet").write_bytes(b"damaged")
    with pytest.raises(CorruptArtifactError, match=r"part-00001\.parquet: sha256 differs"):
        publish_run(workspace, small, *names)


def test_a_refused_delivery_is_raised(topics):
    """A broker that does not take a message ends the command instead of losing it."""
    topic = topics.make("paths")
    sender = topics.cluster(**{"delivery.timeout.ms": "1", "linger.ms": "0"}).sender()
    sender.send(topic, key=None, value=b"", headers=[])
    with pytest.raises(ReasonloopError, match=f"topic {topic} did not accept a message"):
        sender.flush()
