"""`reasonloop stream stage`: sample, verify, and build with train, in three processes joined by topics."""

import os
import random
import shutil
import signal
import time
from collections import defaultdict

import pytest

from pipeline_lib.params_file import load_params
from pipeline_lib.publish.mirror import Outbox, run_name
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import digest_file
from pipeline_lib.store.manifests import MANIFEST_NAME
from pipeline_lib.store.reuse import record_begin
from tests.unit.publish.topics import Topics, broker_process, cluster_for_tests
from tests.waiting import until

SHARDS = 400
SMOKE = ("--profile", "smoke", "--runner", "thread")
LONG = (
    *("--set", f"prepare.train_problems={SHARDS}", "--set", "prepare.countdown.high=60"),
    *("--set", "sample.shard_size=1"),
)
FRESH = ("data/problems", "models/base")
PARTS = ("sample", "verify", "train")
STAGES = {
    "sample": ("prepare", "bootstrap", "sample"),
    "verify": ("verify",),
    "train": ("build", "train"),
}
KILLS = 10
GIVE_UP_S = 300.0


@pytest.fixture(scope="module")
def topics():
    with cluster_for_tests() as address:
        yield Topics(address)


@pytest.fixture
def start(spawn, tmp_path):
    """Start one of the PARTS in its workspace; the base goes by its path."""
    config = tmp_path / "client.properties"
    config.write_text("message.max.bytes=100000\n", "utf-8")

    def start_part(part, found, *settings):
        paths, verdicts = f"paths-{found.token}", f"verdicts-{found.token}"
        ways = {
            "sample": ("--to", paths),
            "verify": ("--from", paths, "--to", verdicts),
            "train": ("--from", paths, "--from", verdicts),
        }
        return spawn(
            *("stream", "stage", *STAGES[part], "--workspace", tmp_path / part),
            *("--brokers", found.brokers, "--config", config, *ways[part], *SMOKE, *settings),
        )

    return start_part


@pytest.fixture(scope="module")
def long_run(reasonloop, tmp_path_factory):
    """The workspace of the same stages without Kafka, with many shards."""
    root = tmp_path_factory.mktemp("long")
    for stage in (stage for part in PARTS for stage in STAGES[part]):
        done = reasonloop("stage", stage, "--workspace", root, *SMOKE, *LONG)
        assert done.returncode == 0, done.stderr
    return root


def make(topics):
    for name in ("paths", "verdicts"):
        topics.make(name)


def ended(process):
    assert process.wait(GIVE_UP_S) == 0, process.log.read_text("utf-8")


def records(root):
    """The results of a run: digests and keys of all tables and their shards, sha256 of the policy."""
    names = [
        path.relative_to(root)
        for table in ("paths", "verdicts", "traindata")
        for path in sorted((root / "data" / table).rglob(f"*{MANIFEST_NAME}"))
    ]
    found = {
        name: manifests.read_manifest((root / name).parent, manifest_name=name.name)
        for name in names
    }
    digests = {str(name): (one.digest, one.key) for name, one in found.items()}
    return {**digests, "weights": digest_file(root / "models" / "policy" / "model.safetensors")}


def finished(root):
    """Numbers of sealed shards of paths and verdicts."""
    tables = (root / "sample" / "data" / "paths", root / "verify" / "data" / "verdicts")
    return tuple(len([*table.glob("part-*.manifest.json")]) for table in tables)


def messages(topics):
    """The distinct values by key, of both topics."""
    found = defaultdict(set)
    count = 0
    for name in ("paths", "verdicts"):
        for message in topics.read(f"{name}-{topics.token}"):
            found[message.key().decode()].add(message.value())
            count += 1
    return found, count


def test_the_same_as_in_one_process(start, topics, finished_run, tmp_path):
    """Tables, shards, their keys, and weights are those of a run; each file has one value."""
    make(topics)
    for part in FRESH:
        shutil.copytree(finished_run / part, tmp_path / "sample" / part)
    processes = [start(part, topics) for part in reversed(PARTS)]
    for process in processes:
        ended(process)
    expected = records(finished_run)
    assert records(tmp_path / "train") == expected
    assert len(expected) > 12
    values, _ = messages(topics)
    assert {len(one) for one in values.values()} == {1}
    [base] = values["models/base/model.safetensors"]
    assert base.decode() == str(tmp_path / "sample" / "models" / "base" / "model.safetensors")


def test_a_shard_is_judged_before_the_next_is_drawn(start, finished_run, tmp_path):
    """The next shard is sent when the verdicts on the one before have come."""
    with cluster_for_tests() as address:
        topics = Topics(address)
        make(topics)
        root = tmp_path / "sample"
        shutil.copytree(finished_run / "data" / "problems", root / "data" / "problems")
        params = load_params(None, profile="smoke", overrides=[])
        target = f"paths-{topics.token}"
        outbox = Outbox(root, topics.cluster().sender(target), target, run=run_name(params))
        outbox.send_stage("prepare", ["data/problems"])
        process = start("verify", topics)
        paths, own = finished_run / "data" / "paths", root / "data" / "paths"
        own.mkdir()
        for index in range(4):
            for file in paths.glob(f"part-{index:05d}.*"):
                shutil.copy(file, own)
            record_begin(root, "sample", key=shards.shard_manifest(own, index).key)
            outbox.send_shards(["data/paths"])
            answer = f"data/verdicts/part-{index:05d}.{MANIFEST_NAME}"
            until(lambda answer=answer: answer in messages(topics)[0], process=process)
        shutil.copy(paths / MANIFEST_NAME, own)
        outbox.send_stage("sample", ["data/paths"])
        ended(process)
    found = [
        manifests.read_manifest(r / "data" / "verdicts")
        for r in (finished_run, tmp_path / "verify")
    ]
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_kills_lose_and_double_nothing(start, long_run, tmp_path):
    """SIGKILLs at random moments over the three processes, each started again at once."""
    places = random.Random(7)
    with cluster_for_tests() as address:
        topics = Topics(address)
        make(topics)
        for part in FRESH:
            shutil.copytree(long_run / part, tmp_path / "sample" / part)
        running = {part: start(part, topics, *LONG) for part in PARTS}
        until(lambda: finished(tmp_path)[0], process=running["sample"])
        killed = []
        for wanted in places.sample([*PARTS] * 4, KILLS):
            time.sleep(places.uniform(2, 14))
            living = [part for part in PARTS if running[part].poll() is None]
            part = wanted if wanted in living else living[-1]
            os.killpg(running[part].pid, signal.SIGKILL)
            running[part].wait()
            killed.append((part, finished(tmp_path)))
            running[part] = start(part, topics, *LONG)
        for process in running.values():
            ended(process)
        values, count = messages(topics)
    assert records(tmp_path / "train") == records(long_run)
    assert {len(one) for one in values.values()} == {1}
    verdicts = shards.read_table(tmp_path / "train" / "data" / "verdicts")
    assert (
        len({(row["problem_id"], row["index"]) for row in verdicts}) == len(verdicts) == 4 * SHARDS
    )
    print(
        f"killed, shards of paths and verdicts by then: {killed}; {count} messages of {len(values)} files"
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_broker_goes(start, long_run, tmp_path):
    """Each process ends with one line and exit code 1; with a new broker the same commands finish the run."""
    with broker_process() as (address, broker):
        topics = Topics(address)
        make(topics)
        running = [start(part, topics, *LONG) for part in PARTS]
        received = [tmp_path / part / "data" / "paths" for part in PARTS[1:]]
        until(lambda: all(table.exists() for table in received), process=running[0])
        broker.kill()
        for process in running:
            assert process.wait(GIVE_UP_S) == 1
            lines = process.log.read_text("utf-8").splitlines()
            assert [line for line in lines if "no Kafka broker answers" in line] == lines[1:]
    with broker_process() as (address, _):
        topics = Topics(address)
        make(topics)
        for process in [start(part, topics, *LONG) for part in PARTS]:
            ended(process)
    assert records(tmp_path / "train") == records(long_run)


def test_stages_of_one_system(refused):
    """Stages of two systems, or none, are refused before anything starts."""
    for names in ((), ("sample", "apr-train")):
        line = refused("stream", "stage", *names, "--brokers", "127.0.0.1:1")
        assert "give stages of one system" in line
