"""`dvc repro`, remotes and fresh clones: same results, and only stale stages run."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import boto3
import pytest

from pipeline_lib.store import manifests
from pipeline_lib.store.files import digest_file
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.provenance import lock_digest
from pipeline_lib.systems.table import SYSTEMS
from tests.flows.dvc_repositories import Checkout, stages_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

S3_KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}
BUCKET = "experiments"


def files_of(folder: pathlib.Path) -> dict[str, str]:
    """Digest of every file below ``folder``."""
    return {
        path.relative_to(folder).as_posix(): digest_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_repro(reproduced, finished_run):
    """The result is that of `reasonloop run`; a second time nothing runs."""
    results = [
        manifests.read_manifest(Workspace(root).evaluation_result).digest
        for root in (reproduced.folder, finished_run)
    ]
    assert results[0] == results[1]
    assert stages_in(reproduced.dvc("repro")) == set()
    assert not reproduced.stale()


def test_the_report_names_the_revision(reproduced):
    """The commit that the stages ran at, its changed files, and the lock without the report."""
    page = (reproduced.folder / "reports" / "report.html").read_text("utf-8")
    for named in (
        reproduced.git("rev-parse", "HEAD~1").strip(),
        "params.yaml",  # `data import` has set the source
        lock_digest(reproduced.folder / "dvc.lock"),
    ):
        assert named in page


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory) -> Iterator[str]:
    """Address of an S3-compatible server with an empty bucket, in a process of its own."""
    log = tmp_path_factory.mktemp("s3") / "log"
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", "0"]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=stream, env={**os.environ, **S3_KEYS}
        )
    try:
        address = served_at(process, log)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in S3_KEYS.items():
                patch.setenv(name, value)
            boto3.client("s3", endpoint_url=address).create_bucket(Bucket=BUCKET)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


def served_at(process: subprocess.Popen[bytes], log: pathlib.Path) -> str:
    for _ in range(600):
        if found := re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text("utf-8")):
            return found[1]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)
            break
    raise AssertionError(log.read_text("utf-8"))


@pytest.fixture(params=["folder", "s3"])
def shared(request, reproduced, tmp_path) -> Checkout:
    """A clone whose outputs are in a remote: a folder, or a bucket of an S3-compatible server."""
    clone = reproduced.clone_with_cache(tmp_path / "first")
    if request.param == "folder":
        clone.dvc("remote", "add", "--default", "storage", str(tmp_path / "remote"))
    else:
        clone = Checkout(clone.folder, {**clone.environment, **S3_KEYS})
        address = request.getfixturevalue("s3_server")
        clone.dvc("remote", "add", "--default", "storage", f"s3://{BUCKET}/dvc")
        clone.dvc("remote", "modify", "storage", "endpointurl", address)
    clone.commit("remote")
    clone.dvc("push")
    return clone


def test_a_clone_gets_everything_from_the_remote(shared, tmp_path):
    """`dvc pull` in a fresh clone: nothing is stale, nothing would run, all files are byte-equal."""
    clone = shared.clone(tmp_path / "second")
    clone.dvc("pull")
    assert not clone.stale()
    assert stages_in(clone.dvc("repro", "--dry")) == set()
    for name in ("reports", "models", "data"):
        assert files_of(clone.folder / name) == files_of(shared.folder / name)
    assert (clone.folder / "data" / "raw" / "notes" / "notes.txt").is_file()
    # Imported code leaves __pycache__ in the folders that stages depend on.
    clone.reasonloop("stages")
    assert not clone.stale()


def test_changed_raw_data_makes_prepare_stale(reproduced, tmp_path):
    """A file more in an imported folder: `prepare` would run."""
    clone = reproduced.clone_with_cache(tmp_path / "clone")
    (clone.folder / "data" / "raw" / "notes" / "more.txt").write_text("new\n", encoding="utf-8")
    assert "prepare" in stages_in(clone.dvc("repro", "--dry"))


@pytest.mark.parametrize("system", ["prr", "pacore", "apr", "classmate"])
def test_other_systems_have_repositories_of_their_own(reproduced, tmp_path, system):
    """`dvc --cd pipelines/SYSTEM repro` runs its stages, a second time none; the loop's repository stays clean."""
    clone = reproduced.clone_with_cache(tmp_path / "clone")
    ran = stages_in(clone.dvc("--cd", f"pipelines/{system}", "repro"))
    assert ran == {stage.name for stage in SYSTEMS[system].stages}
    assert stages_in(clone.dvc("--cd", f"pipelines/{system}", "repro")) == set()
    assert clone.git("status", "--short").split() == [
        "??",
        f"pipelines/{system}/dvc.lock",
        "??",
        f"pipelines/{system}/stages.lock.yaml",
    ]
    assert not clone.stale()
