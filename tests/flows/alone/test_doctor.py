"""`reasonloop doctor`: each check on a machine that passes it and on one that does not."""

import json
import resource
import subprocess
import sys

import pytest
from prefect.client.schemas.actions import WorkPoolCreate

from benchmarks.lib.repository import REPOSITORY
from flows.cli.platform import doctor
from tests.faults.small_disk import small_disk
from tests.waiting import until


def findings(done):
    """The findings of `doctor --json` by their names."""
    return {one["what"]: one for one in json.loads(done.stdout)["findings"]}


def test_doctor_prints_a_line_for_each_part(reasonloop):
    """The tier in use is named; a line that is not ok has a remedy; the exit code is the worst line's."""
    done = reasonloop("doctor")
    passed = "sandbox tier landlock: self-test passed"
    assert passed not in done.stdout or "by stat they see names" in done.stdout
    lines = done.stdout.splitlines()
    for what in ("Prefect server", "Ray", "memory", "open files", "disk", "write access", "DVC"):
        assert any(line.split(maxsplit=1)[1].startswith(what) for line in lines), what
    assert any("sandbox tier" in line and "in use" in line for line in lines)
    assert (done.returncode == 1) == any(line.startswith("missing") for line in lines)


@pytest.mark.slow
def test_doctor_finds_what_is_wrong(reasonloop, tmp_path):
    """A dead cluster, an engine that is not installed and 100 descriptors: findings, exit code 1."""
    limited = (
        f"import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (100, {resource.getrlimit(7)[1]}))"
    )
    argv = reasonloop.argv("doctor", "--json", "--engine", "vllm")
    argv += ["--set", "serve.environment=.no-such"]
    done = subprocess.run(
        [sys.executable, "-c", f"{limited}; import os, sys; os.execv({argv[0]!r}, {argv!r})"],
        cwd=REPOSITORY,
        env={**reasonloop.environment, "RAY_ADDRESS": "127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    found = findings(done)
    assert json.loads(done.stdout)["ok"] is False
    wrong = {what for what, one in found.items() if one["ok"] is False}
    assert {"Ray", "serve environment", "open files"} <= wrong
    assert "RAY_ADDRESS=127.0.0.1:9: no answer" in found["Ray"]["detail"]
    assert ".no-such" in found["serve environment"]["detail"]
    assert found["open files"]["detail"] == "at most 100 per process"
    assert found["Prefect server"]["ok"] is True


def test_a_disk_that_cannot_be_written(tmp_path):
    """A read-only mount of 1 MiB: no room and no write access."""
    with small_disk(tmp_path / "disk", mib=1) as disk:
        disk.remount("ro")
        room, access = doctor.disk(disk.root / "run")
    assert room.ok is False
    assert access.ok is False
    assert "Read-only file system" in access.detail


@pytest.mark.slow
def test_the_dvc_remote_is_asked(tmp_path, monkeypatch):
    """None is optional; a folder with pushed data answers; a folder that is gone does not."""
    monkeypatch.chdir(tmp_path)
    dvc = [sys.executable, "-m", "dvc"]

    def remote():
        return list(doctor.dvc())[1]

    subprocess.run([*dvc, "init", "--no-scm", "-q"], check=True)
    assert remote().ok is None
    subprocess.run([*dvc, "remote", "add", "-q", "-d", "store", tmp_path / "store"], check=True)
    (tmp_path / "file").write_text("x")
    subprocess.run([*dvc, "add", "-q", "file"], check=True)
    subprocess.run([*dvc, "push", "-q"], check=True)
    assert remote().ok is True
    (tmp_path / "store").rename(tmp_path / "gone")
    assert remote().ok is False


@pytest.mark.slow
def test_a_work_pool_needs_a_worker(prefect_server, client, reasonloop):
    """A pool without a worker is named; with one that runs, the worker is."""
    client.create_work_pool(WorkPoolCreate(name="night", type="process"))
    try:
        (idle,) = doctor.work_pools(prefect_server.api_url)
        assert idle.ok is None
        assert "--pool night" in idle.remedy
        command = ["prefect", "worker", "start", "--pool", "night", "--name", "owl"]
        worker = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=reasonloop.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until(lambda: next(doctor.work_pools(prefect_server.api_url)).ok)
        finally:
            worker.terminate()
            worker.wait(60)
    finally:
        client.delete_work_pool("night")


def installed_command(installed, environment, folder, *arguments):
    return subprocess.run(
        [sys.executable, installed / "bin" / "reasonloop", *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_doctor_works_installed(reasonloop, installed, tmp_path):
    """Outside of a clone, in a folder without files."""
    found = findings(
        installed_command(installed, reasonloop.environment, tmp_path, "doctor", "--json")
    )
    assert found["torch"]["ok"] is True
    assert found["DVC repository"]["ok"] is None
    assert found["Prefect server"]["ok"] is True


@pytest.fixture
def own_packages(tmp_path):
    """A folder with its own flows/, tasks/ and pipeline_lib/, as users of Prefect have."""
    for name in ("flows", "tasks", "pipeline_lib"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    return tmp_path


@pytest.mark.slow
def test_an_installed_run_beside_packages_of_the_same_names(reasonloop, installed, own_packages):
    """Ray's workers included."""
    done = installed_command(
        installed, reasonloop.environment, own_packages, "run", "--profile", "smoke"
    )
    assert done.returncode == 0, done.stderr
    assert (own_packages / "reports" / "metrics.json").exists()
    assert not (own_packages / "params.yaml").exists()


def test_deployments_beside_packages_of_the_same_names(own_packages):
    """`prefect deploy` and a worker's run import them with the current folder first."""
    load = "from prefect.flows import load_flow_from_entrypoint as load; print(load({!r}).name)"
    code = load.format("reasonloop.deployments.post_training")
    command = [sys.executable, "-P", "-c", code]
    assert subprocess.check_output(command, cwd=own_packages, text=True) == "post-training\n"
