"""Files of a workspace, over a topic, in another workspace."""

import random

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.publish.mirror import Inbox, Outbox
from pipeline_lib.store import shards
from pipeline_lib.store.reuse import record_begin

TABLE = "data/paths"


@pytest.fixture
def roots(tmp_path):
    return tmp_path / "from", tmp_path / "to"


def outbox(topics, root, topic, **settings):
    return Outbox(root, topics.cluster(**settings).sender(topic), topic, run="r")


def inbox(topics, root, topic, *, run="r"):
    wanted = [TABLE, "sample.manifest.json"]
    return Inbox(root, topics.cluster().reader(topic), wanted, run=run)


def write(root, index, *, key="k", text="x"):
    rows = [{"text": text, "noise": random.Random(index).randbytes(4000).hex()}]
    shards.write_shard(root / TABLE, index, rows, kind="paths", key=key)


def keys(topics, topic):
    return sorted(message.key().decode() for message in topics.read(topic))


def files(root):
    found = (root / "data").rglob("*")
    return {path.relative_to(root): path.read_bytes() for path in found if path.is_file()}


@pytest.mark.parametrize("limit", ["1000000", "1000"])
def test_the_same_files(topics, roots, limit):
    """A table, inline or by paths, sent twice: the same files; a file is written once."""
    topic, (one, other) = topics.make("files"), roots
    for index in range(3):
        write(one, index)
    shards.seal_table(one / TABLE, 3, kind="paths", key="k")
    for _ in range(2):
        box = outbox(topics, one, topic, **{"message.max.bytes": limit})
        box.send_stage("sample", [TABLE])
        box.send_stage("sample", [TABLE])
    assert topics.count(topic) == 2 * 8
    assert any(b"PAR1" in message.value() for message in topics.read(topic)) == (limit != "1000")
    inbox(topics, other, topic).wait(other / "sample.manifest.json")
    assert files(other) == files(one)
    written = (other / TABLE / "part-00000.parquet").stat().st_mtime_ns
    inbox(topics, other, topic).wait(other / "sample.manifest.json")
    assert (other / TABLE / "part-00000.parquet").stat().st_mtime_ns == written


def test_shards_of_other_params_stay(topics, roots):
    """While a stage runs, a shard of before is sent once the stage works under its key."""
    topic, (one, _) = topics.make("files"), roots
    write(one, 0, key="before")
    write(one, 1)
    box = outbox(topics, one, topic)
    box.send_shards([TABLE])
    assert topics.count(topic) == 0
    record_begin(one, "sample", key="k", number=3)
    box.send_shards([TABLE])
    box.send_shards([TABLE])
    assert keys(topics, topic) == [
        f"{TABLE}/part-00001.{end}" for end in ("manifest.json", "parquet")
    ]


def test_what_is_refused(topics, roots):
    """Messages of another run, and paths that cannot be read, end the command; other files are passed over."""
    topic, (one, other) = topics.make("files"), roots
    write(one, 0)
    shards.seal_table(one / TABLE, 1, kind="paths", key="k")
    box = outbox(topics, one, topic, **{"message.max.bytes": "1000"})
    headers = [("run", "r"), ("sha256", "")]
    for name in ("../outside", f"{TABLE}/../../outside", "/tmp/outside", "models/base/x"):
        box._sender.send(topic, key=name, value=b"x", headers=[*headers])
    box.send_stage("sample", [TABLE])
    inbox(topics, other, topic).wait(other / "sample.manifest.json")
    assert files(other) == files(one)
    assert not (other.parent / "outside").exists()
    with pytest.raises(BadInputError, match="is no file of a run with these params"):
        inbox(topics, other, topic, run="s").wait(other / "sample.manifest.json")
    (one / TABLE / "part-00000.parquet").unlink()
    with pytest.raises(BadInputError, match=r"part-00000\.parquet: cannot be read here"):
        inbox(topics, other, topic).wait(other / "sample.manifest.json")
