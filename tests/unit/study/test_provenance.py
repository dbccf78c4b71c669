"""The revision in the report: commit, changed files, digest of dvc.lock."""

import subprocess

import pytest
import yaml

from pipeline_lib.study.provenance import lock_digest, read_revision

LOCK_ROW = "dvc.lock without this stage"


def git(folder, *arguments):
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def write_lock(folder, **stages):
    text = yaml.safe_dump({"schema": "2.0", "stages": stages})
    (folder / "dvc.lock").write_text(text, encoding="utf-8")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """One commit with a params file and a lock."""
    monkeypatch.delenv("DVC_STAGE", raising=False)
    git(tmp_path, "init", "-q")
    (tmp_path / "params.yaml").write_text("seed: 7\n", encoding="utf-8")
    write_lock(tmp_path, train={"md5": "1"}, report={"md5": "2"})
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_a_clean_checkout_is_its_commit(repository):
    """Files that are not tracked, and the lock that DVC is about to commit, are no change."""
    (repository / "notes.txt").write_text("mine", encoding="utf-8")
    write_lock(repository, train={"md5": "3"})
    head = git(repository, "rev-parse", "HEAD")
    assert read_revision(repository) == {"commit": head, "uncommitted changes": "none"}


def test_changed_files_are_named(repository):
    """Up to five of them, in the index or not."""
    (repository / "params.yaml").write_text("seed: 8\n", encoding="utf-8")
    assert read_revision(repository)["uncommitted changes"] == "params.yaml"
    for number in range(6):
        (repository / f"a{number}").write_text("", encoding="utf-8")
    git(repository, "add", ".")
    listed = read_revision(repository)["uncommitted changes"]
    assert listed == "a0, a1, a2, a3, a4 and 2 more"


def test_the_lock_is_named_in_a_stage_of_dvc_only(repository, monkeypatch):
    """Its digest covers all other stages, so it is the same once the report is in the lock."""
    assert LOCK_ROW not in read_revision(repository)
    monkeypatch.setenv("DVC_STAGE", "report")
    found = read_revision(repository)[LOCK_ROW]
    write_lock(repository, train={"md5": "1"}, report={"md5": "another"})
    assert lock_digest(repository / "dvc.lock") == found
    write_lock(repository, train={"md5": "another"}, report={"md5": "2"})
    assert lock_digest(repository / "dvc.lock") != found


def test_outside_of_its_own_repository_there_is_none(repository, tmp_path_factory):
    """A folder inside another project's repository, as of an installed package, has no revision."""
    (repository / "site-packages").mkdir()
    assert read_revision(repository / "site-packages") == {}
    assert read_revision(tmp_path_factory.mktemp("no-repository")) == {}
