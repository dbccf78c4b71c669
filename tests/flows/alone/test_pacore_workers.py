"""`pacore master`, `worker` and `batch --master` as a user runs them: real processes, real Ray."""

import json
import signal
import time

import httpx
import openai
import psutil
import pytest
from ray.util import get_node_ip_address

from flows.server.server import unused_port
from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.train.bootstrap import save_blank_policy
from tests.flows.pacore_cluster import (
    KEY,
    NUM_CALLS,
    Batch,
    Cluster,
    Endpoint,
    ended,
    ready,
)
from tests.unit.engines.scripted_server import scripted_server
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def endpoint():
    with scripted_server() as server:
        yield Endpoint(server)


@pytest.fixture(scope="module")
def cluster(endpoint, tmp_path_factory):
    found = Cluster(endpoint, tmp_path_factory.mktemp("cluster"))
    yield found
    found.end()


@pytest.fixture(scope="module")
def unbroken(cluster, endpoint) -> bytes:
    """The file of a batch without workers."""
    content, _ = Batch(cluster, "A", *endpoint.options).finish()
    return content


def counts(line: str) -> dict[str, int]:
    """Calls by node id, and those that were lost."""
    calls, _, lost = line.removeprefix("calls of workers: ").partition("; ")
    by_node = {part.split()[-1]: int(part.split()[0]) for part in calls.split(", ")}
    return by_node | {"lost": int(lost.split()[0])}


def test_workers_join_die_and_leave_in_mid_batch(cluster, endpoint, unbroken):
    """One worker gives the file of a batch without workers.

    So do two of which one is killed while it draws, a third that joins, and the first that is told to go:
    its call in flight is answered, and that of the killed one is sent again.
    """
    [first] = cluster.workers("A")
    endpoint.keys.clear()
    content, line = cluster.batch("A").finish()
    assert content == unbroken
    assert counts(line) == {str(first.node_id): NUM_CALLS, "lost": 0}
    assert endpoint.keys == {KEY}
    second = cluster.workers("A", "A")[1]
    endpoint.gate.clear()
    batch = cluster.batch("A")
    until(lambda: endpoint.server.in_flight == 2 * 8)
    second.process.kill()
    until(lambda: endpoint.server.in_flight == 8)
    third = cluster.workers("A", "A")[1]
    until(lambda: endpoint.server.in_flight == 2 * 8)
    first.process.terminate()
    time.sleep(1.0)
    assert first.process.poll() is None
    endpoint.gate.set()
    content, line = batch.finish()
    assert content == unbroken
    expected = {str(first.node_id): 1, str(third.node_id): NUM_CALLS - 1, "lost": 1}
    assert counts(line) == expected
    assert first.finish() == (128 + signal.SIGTERM, "")


def test_models_share_each_round(cluster, endpoint):
    """Path i is drawn by model i mod 2 whichever is faster, and the first model synthesizes.

    Two workers of one model share its calls.
    """
    cluster.workers("A", "A", "B")
    endpoint.delay_s = {"A": 0.1, "B": 0.0}
    content, line = cluster.batch("A", "--with", "B").finish()
    endpoint.delay_s = {"A": 0.0, "B": 0.0}
    assert len(counts(line)) == 4
    for row in map(json.loads, content.splitlines()):
        models = [[drawn["model"] for drawn in one] for one in row["round_responses"]]
        assert models == [["A", "B"] * 8, ["A", "B"], ["A"]]


def test_a_gateway_over_workers(cluster, endpoint):
    """`pacore serve --master`: an OpenAI client gets an answer of 17 calls."""
    cluster.workers("A", "A")
    gateway = cluster.run("serve", "A", "--master", cluster.address, "--port", unused_port())
    lines = iter(gateway.process.stdout.readline, "")
    url = next(line.split()[-1] for line in lines if line.startswith("base URL"))
    gateway.wait_for("Ctrl-C")
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    asked = {"model": "A:medium", "messages": [{"role": "user", "content": "Why?"}], "seed": 5}
    whole = client.chat.completions.create(**asked)
    assert whole.pacore["calls"] == 17
    assert gateway.end(signal.SIGTERM)[0] == 128 + signal.SIGTERM
    listening = [one for one in psutil.net_connections() if one.status == psutil.CONN_LISTEN]
    assert httpx.URL(url).port not in {one.laddr.port for one in listening}


def test_two_nodes_and_sigterm(endpoint, unbroken, tmp_path):
    """Workers on Ray nodes of their own give the same file; SIGTERM leaves no process of any command."""
    cluster = Cluster(endpoint, tmp_path, "--host", get_node_ip_address())
    try:
        first, second = ready(
            *(cluster.worker("A", "--node-ip", f"127.0.0.{host}") for host in (2, 3))
        )
        content, line = cluster.batch("A").finish()
        assert content == unbroken
        assert set(counts(line)) == {str(first.node_id), str(second.node_id), "lost"}
        for command in (first, second, cluster.master):
            family = command.family()
            assert len(family) > 3
            code, shown = command.end(signal.SIGTERM)
            assert (code, shown) == (128 + signal.SIGTERM, "")
            assert ended(family)
    finally:
        cluster.end()


def test_embedded_engines(cluster, tmp_path):
    """A model in the workers' own processes: one worker and two give the same file.

    Without a chat template it is refused.
    """
    model = tmp_path / "model"
    params = BootstrapParams(hidden_size=16, num_layers=1, num_heads=2)
    save_blank_policy(model, [{"prompt": "What is 3+1?\n", "completion": "4"}], params)
    embedded = ("--engine", "embedded")
    code, shown = cluster.worker(str(model), engine=embedded).finish()
    assert (code, shown.count("\n")) == (2, 1)
    assert "has no chat template" in shown
    template = "{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}"
    (model / "chat_template.jinja").write_text(template, encoding="utf-8")
    config = json.loads((model / "config.json").read_text("utf-8"))
    # Room for the references of a synthesis.
    config["max_position_embeddings"] = 8192
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    files = []
    for number in (1, 2):
        ready(cluster.worker(str(model), engine=embedded))
        content, line = cluster.batch(str(model), "--set", "pacore.max_new_tokens=6").finish()
        files.append(content)
        assert len(counts(line)) == number + 1
    assert files[0] == files[1]
    assert {json.loads(row)["rounds"][1]["references"] for row in files[0].splitlines()} <= {15, 16}


def test_what_the_cluster_refuses_is_one_line(cluster, endpoint, tmp_path):
    """Exit code 2: a port in use, a node id twice, a model that no endpoint serves."""
    [worker] = cluster.workers("A")
    at = ("--master", cluster.address)
    port = cluster.address.rpartition(":")[2]
    served = (*endpoint.options, "--workspace", tmp_path)
    started = {
        f"--port {port}": ("master", "--port", port, "--workspace", tmp_path),
        f"--node-id {worker.node_id}": ("worker", "A", *at, "--node-id", worker.node_id, *served),
        "ENGINE=sglang": ("worker", "A", *at, "--node-id", "d", "--engine", "sglang"),
        "does not serve C": ("worker", "C", *at, "--node-id", "c", *served),
    }
    for message, arguments in started.items():
        code, shown = cluster.run(*arguments).finish()
        assert (code, shown.strip().count("\n")) == (2, 0), shown
        assert message in shown


def test_a_killed_master_ends_its_workers(cluster):
    """SIGKILL, the last test of the cluster: no process of Ray is left, and a worker that awaits no other master ends
    with one line."""
    [worker] = ready(cluster.worker("A", "--rejoin-s", 0))
    family = cluster.master.family()
    cluster.master.process.kill()
    code, shown = worker.finish()
    assert code == 1
    assert shown.count("\n") == 1
    assert "has died" in shown
    assert ended(family)
