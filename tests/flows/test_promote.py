"""Promotion with a real server: the pause and its answers, the refusals, the way back."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import httpx
import pytest
import torch
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowFilter,
    FlowFilterName,
)
from prefect.client.schemas.objects import FlowRun
from transformers import AutoConfig, AutoModelForCausalLM

from benchmarks.lib.repository import REPOSITORY
from flows.promote import answer, waiting_promotion
from flows.promote import promote as promote_flow
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.publish.promotion.comparison import make_request, release
from pipeline_lib.publish.promotion.releases import Releases
from pipeline_lib.store import manifests
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.train.weights import policies
from tests.waiting import until

PATIENCE_S = 180
SMOKE = ("--profile", "smoke", "--set", "execution.runner=thread")


@dataclass(frozen=True)
class Promotion:
    """A running `reasonloop promote` that waits for an answer."""

    process: "subprocess.Popen[bytes]"
    run: FlowRun
    text: str

    def output(self) -> str:
        """Standard output and errors of the ended command."""
        self.process.wait(PATIENCE_S)
        return self.process.log.read_text("utf-8")


@pytest.fixture
def promote(spawn, client) -> Callable[..., Promotion]:
    """Start the command and wait until its run waits.

    A run whose command was killed before is still paused, until the next run of its workspace.
    """

    def start(workspace, releases):
        before = waiting_promotion(client, Workspace(workspace))
        process = spawn("promote", "--workspace", workspace, "--releases", releases)

        def later():
            found = waiting_promotion(client, Workspace(workspace))
            return None if before and found and found[0].id == before[0].id else found

        until(later, process=process)
        return Promotion(process, *later())

    return start


def resume(prefect_server, run_id, run_input):
    """Answer through the API, as a program or the UI does."""
    url = f"{prefect_server.api_url}/flow_runs/{run_id}/resume"
    return httpx.post(url, json={"run_input": run_input}, timeout=60).raise_for_status().json()


def newest_run(client):
    """The promotion that began last."""
    promotions = FlowFilter(name=FlowFilterName(any_=["promote"]))
    [run] = client.read_flow_runs(flow_filter=promotions, limit=1, sort="START_TIME_DESC")
    return run


@pytest.fixture(scope="module")
def untrained(finished_run, reasonloop, tmp_path_factory):
    """A workspace whose policy has random weights, evaluated like the one of `finished_run`."""
    workspace = Workspace(tmp_path_factory.mktemp("untrained") / "run")
    shutil.copytree(finished_run, workspace.root)
    policy = workspace.policy(1, rounds=1)
    torch.manual_seed(7)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(policy)).save_pretrained(policy)
    manifests.seal(policy, kind=policies.KIND, key="untrained")
    done = reasonloop("stage", "evaluate", "--workspace", workspace.root, *SMOKE)
    assert done.returncode == 0, done.stderr
    return workspace.root


def test_approved_through_the_api(finished_run, client, promote, prefect_server, tmp_path):
    """The first release pauses with gain, interval, flips and cost; the server refuses an answer that
    is not in the form; after approval `current` leads to the policy of the run.
    """
    releases = Releases(tmp_path / "released")
    promotion = promote(finished_run, releases.root)
    run_id = promotion.run.id
    text = promotion.text
    for part in ("over base", "interval", "gained, ", "tokens per path", "trained tokens"):
        assert part in text, part
    assert resume(prefect_server, run_id, {"decision": "perhaps"})["status"] == "REJECT"
    assert resume(prefect_server, run_id, None)["status"] == "REJECT"
    assert not releases.root.exists()
    assert resume(prefect_server, run_id, {"decision": "approve"})["status"] == "ACCEPT"
    output = promotion.output()
    assert promotion.process.returncode == 0, output
    assert f"released as {releases.root / '1'}" in output
    policy = Workspace(finished_run).policy(1, rounds=1)
    assert model_identity(str(releases.root / "current")) == model_identity(str(policy))
    state = client.read_flow_run(run_id).state
    assert state.is_completed()
    assert state.message == f"released as {releases.root / '1'}"
    mine = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run_id]))
    [artifact] = client.read_artifacts(artifact_filter=mine)
    assert artifact.key == "promotion"
    assert text in artifact.data


@pytest.mark.slow
def test_better_and_worse(untrained, finished_run, client, reasonloop, promote, tmp_path):
    """A policy that is better than an untrained release pauses with its gain, and replaces it once
    approved by command; the untrained one is then stopped without a pause.
    """
    store = tmp_path / "released"
    release(make_request(Workspace(untrained), Releases(store)), Releases(store))
    better = promote(finished_run, store)
    assert "Candidate gains" in better.text
    assert "over release 1" in better.text
    approved = reasonloop("promote", "--workspace", finished_run, "--approve")
    assert approved.returncode == 0, approved.stderr
    assert f"released as {store / '2'}" in better.output()
    released = Releases(store).current().record
    assert released.facts.gain.low > 0
    assert (released.facts.compared_with, released.facts.replaces) == ("release 1", 1)

    worse = reasonloop("promote", "--workspace", untrained, "--releases", store)
    assert worse.returncode == 1
    assert worse.stderr.count("\n") == 1
    assert "below release 2" in worse.stderr
    run = newest_run(client)
    assert run.state.is_failed()
    assert "below release 2" in run.state.message
    assert "Paused" not in {state.name for state in client.read_flow_run_states(run.id)}

    again = reasonloop("promote", "--workspace", finished_run, "--releases", store)
    assert again.returncode == 0, again.stderr
    assert "is release 2 already" in again.stdout


@pytest.mark.slow
def test_back(untrained, finished_run, reasonloop, tmp_path):
    """`--back` follows to the release before, `--list` marks it, and the first has none before it."""
    store = tmp_path / "released"
    for workspace in (untrained, finished_run):
        release(make_request(Workspace(workspace), Releases(store)), Releases(store))
    back = reasonloop("promote", "--releases", store, "--back")
    assert (back.returncode, back.stdout) == (0, "release 1 is the released policy again\n")
    policy = Workspace(untrained).policy(1, rounds=1)
    assert model_identity(str(store / "current")) == model_identity(str(policy))
    listed = reasonloop("promote", "--releases", store, "--list")
    assert "1 (current)" in listed.stdout
    refused = reasonloop("promote", "--releases", store, "--back")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1


@pytest.mark.slow
def test_rejected(finished_run, client, reasonloop, promote, tmp_path):
    """Nothing is written; the run is cancelled; the waiting command ends with exit code 1."""
    promotion = promote(finished_run, tmp_path / "released")
    second = reasonloop("promote", "--workspace", finished_run, "--releases", tmp_path / "released")
    assert second.returncode == 1
    assert f"in use by process {promotion.process.pid}" in second.stderr
    done = reasonloop("promote", "--workspace", finished_run, "--reject")
    assert done.returncode == 0, done.stderr
    assert "nothing was released" in promotion.output()
    assert promotion.process.returncode == 1
    assert client.read_flow_run(promotion.run.id).state.is_cancelled()
    assert not (tmp_path / "released").exists()


@pytest.mark.slow
def test_a_dead_promotion_is_not_approved(finished_run, client, reasonloop, promote, tmp_path):
    """SIGKILL while it waits: the answer is one line, the run is crashed, nothing is released."""
    promotion = promote(finished_run, tmp_path / "released")
    os.killpg(promotion.process.pid, signal.SIGKILL)
    promotion.process.wait()
    done = reasonloop("promote", "--workspace", finished_run, "--approve")
    assert done.returncode == 1
    assert "its process has ended" in done.stderr
    assert done.stderr.count("\n") == 1
    assert client.read_flow_run(promotion.run.id).state.is_crashed()
    again = reasonloop("promote", "--workspace", finished_run, "--approve")
    assert again.returncode == 2
    assert "no promotion waits" in again.stderr
    assert not (tmp_path / "released").exists()


@pytest.mark.slow
def test_a_later_promotion_supersedes_a_dead_one(finished_run, client, promote, tmp_path):
    """At most one run of a workspace waits."""
    first = promote(finished_run, tmp_path / "released")
    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.wait()
    second = promote(finished_run, tmp_path / "released")
    assert client.read_flow_run(first.run.id).state.is_cancelled()
    assert client.read_flow_run(second.run.id).state.is_paused()


@pytest.mark.slow
def test_cancelled_in_the_ui(finished_run, client, promote, prefect_server, tmp_path):
    """The command ends by itself, and its run is cancelled."""
    promotion = promote(finished_run, tmp_path / "released")
    url = f"{prefect_server.api_url}/flow_runs/{promotion.run.id}/set_state"
    httpx.post(url, json={"state": {"type": "CANCELLING"}}, timeout=60).raise_for_status()
    assert "the promotion was cancelled" in promotion.output()
    assert promotion.process.returncode == 1
    assert client.read_flow_run(promotion.run.id).state.is_cancelled()
    assert not (tmp_path / "released").exists()


@pytest.fixture
def deployment(client):
    """The flow as a deployment of a process pool that has no worker."""
    client.create_work_pool(WorkPoolCreate(name="promotions", type="process"))
    return client.create_deployment(
        flow_id=client.create_flow(promote_flow),
        name="gated",
        entrypoint="flows.promote.promote",
        work_pool_name="promotions",
    )


@pytest.mark.slow
def test_an_answer_is_for_one_comparison(
    untrained, finished_run, client, reasonloop, deployment, tmp_path
):
    """A deployment's run is suspended: its process ends and the workspace is free. A later run takes
    its place. After another release meanwhile, the approved run is suspended again and releases
    nothing.
    """
    releases = Releases(tmp_path / "released")
    workspace = Workspace(finished_run)

    def execute(run_id):
        """As a process worker does, in its working folder."""
        subprocess.run(
            [sys.executable, "-m", "prefect.engine"],
            cwd=REPOSITORY,
            env=reasonloop.environment | {"PREFECT__FLOW_RUN_ID": str(run_id)},
            check=True,
            timeout=PATIENCE_S,
        )
        with workspace.lease():
            return client.read_flow_run(run_id).state

    parameters = {"workspace": str(finished_run), "releases": str(releases.root)}
    ids = [
        client.create_flow_run_from_deployment(deployment, parameters=parameters).id
        for _ in range(2)
    ]
    assert [execute(run_id).name for run_id in ids] == ["Suspended", "Suspended"]
    assert client.read_flow_run(ids[0]).state.is_cancelled()
    first, text = waiting_promotion(client, workspace)
    assert first.id == ids[1]
    assert "over base" in text

    release(make_request(Workspace(untrained), releases), releases)
    answer(client, first, "approve", workspace=workspace)
    assert execute(ids[1]).name == "Suspended"
    assert releases.current().record.number == 1
    second, text = waiting_promotion(client, workspace)
    assert "over release 1" in text
    answer(client, second, "approve", workspace=workspace)
    assert execute(ids[1]).is_completed()
    assert releases.current().record.number == 2
