"""The queue of `pacore master` as a user runs it: clients that leave, workers that come and go, masters that are killed."""

import json

import pytest

from tests.flows.pacore_cluster import NUM_QUESTIONS, Batch, Cluster, Endpoint, questions, ready
from tests.unit.engines.scripted_server import scripted_server
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PARAMS = ("--set", "pacore.widths=[16,2]", "--set", "pacore.problems_together=2")
"""Of the master."""


@pytest.fixture
def endpoint():
    with scripted_server() as server:
        yield Endpoint(server)


@pytest.fixture
def cluster(endpoint, tmp_path):
    found = Cluster(endpoint, tmp_path, "--host", "127.0.0.1", *PARAMS)
    yield found
    found.end()


def shown(cluster, *arguments) -> str:
    """The output of a command that succeeds."""
    code, text = cluster.run(*arguments, "--master", cluster.address).finish()
    assert code == 0, text
    return text


def fetched(cluster, name) -> list[dict]:
    output = cluster.folder / "fetched.jsonl"
    shown(cluster, "fetch", name, "--output", output)
    return [json.loads(line) for line in output.read_text("utf-8").splitlines()]


def test_every_question_is_answered_once(cluster, endpoint, tmp_path):
    """A client leaves, a worker is killed, the master is killed and started again, and its worker joins it again.

    The file is the file of a batch without workers, and is fetched with no worker alive.
    """
    unbroken, _ = Batch(cluster, "A", *endpoint.options, *PARAMS[2:]).finish()
    source, output = questions(tmp_path), tmp_path / "answers.jsonl"
    handed = ("batch", "A", source, "--output", output)
    name = shown(cluster, *handed, "--detach").split()[1].rstrip(":")
    assert not output.exists()
    assert "0 of 6 answered  waiting for a worker of A" in shown(cluster, "status")
    assert fetched(cluster, name) == []
    [first] = cluster.workers("A")
    journal = tmp_path / "pacore-queue" / name / "answers.jsonl.partial"
    until(lambda: journal.exists() and journal.read_text("utf-8").count("\n") >= 2)
    endpoint.gate.clear()
    first.process.kill()
    first.process.wait()
    [second] = ready(cluster.worker("A"))
    until(lambda: endpoint.server.in_flight > 0)
    cluster.master.process.kill()
    second.wait_for("joins the master")
    endpoint.gate.set()
    cluster.start_master()
    again = fetched(cluster, name)
    assert again
    assert len(again) <= NUM_QUESTIONS
    code, text = cluster.run(*handed, "--master", cluster.address).finish()
    assert code == 0, text
    assert f"batch {name}:" in text
    assert output.read_bytes() == unbroken
    second.process.terminate()
    second.finish()
    ids = [row["request_id"] for row in fetched(cluster, name)]
    assert ids == list(range(NUM_QUESTIONS))
    line = shown(cluster, "status")
    assert "6 of 6 answered" in line
    assert "drawn again" in line
    assert "finished" in line


def test_what_cannot_be_drawn_ends_its_batch_alone(cluster, tmp_path):
    """Exit code 2 and one line for models that do not fit; the next batch is drawn, an unknown one is named."""
    assert "no batches" in shown(cluster, "status")
    cluster.workers("A")
    asked = (questions(tmp_path), "--output", tmp_path / "answers.jsonl")
    at = ("--master", cluster.address)
    code, text = cluster.run("batch", "A", *asked, *at, "--with", "A").finish()
    assert code == 2
    assert "A is given twice" in text
    assert "6 questions" in shown(cluster, "batch", "A", *asked)
    code, text = cluster.run("fetch", "other", *at, "--output", tmp_path / "o.jsonl").finish()
    assert (code, text.count("\n")) == (2, 1)
    assert "other: the master has no such batch" in text
