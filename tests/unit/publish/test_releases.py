"""The folder of releases: whole copies, an atomic pointer, and the way back."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError, CorruptArtifactError, ReasonloopError
from pipeline_lib.publish.promotion.comparison import make_request, read_candidate, release
from pipeline_lib.publish.promotion.releases import Releases
from pipeline_lib.store import manifests
from tests.unit.publish.finished_workspace import finish

BASE, TRAINED = ["cw"] * 12, ["cc"] * 12
KILLED = """
import os, pathlib, signal, sys
from pipeline_lib.publish.promotion.comparison import make_request, release
from pipeline_lib.publish.promotion.releases import Releases
from pipeline_lib.store.workspace import Workspace

class Killed(Releases):
    def _point(self, release):
        os.kill(os.getpid(), signal.SIGKILL)

store = pathlib.Path(sys.argv[2])
request = make_request(Workspace(pathlib.Path(sys.argv[1])), Releases(store))
release(request, Killed(store))
"""
"""Is killed after the copy, before the link is replaced."""


@pytest.fixture
def releases(tmp_path):
    return Releases(tmp_path / "released")


def run(folder, *, weights):
    """A new finished workspace."""
    return finish(folder, base=BASE, trained=TRAINED, weights=weights)


def released(workspace, releases):
    return release(make_request(workspace, releases), releases)


def killed(workspace, releases):
    """Release in a process that is killed between copy and pointer."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(workspace.root), str(releases.root)],
        cwd=REPOSITORY,
        check=False,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL


def test_a_release_is_the_sealed_policy(tmp_path, releases):
    """Equal manifest, equal identity, all files; `current` leads to it."""
    workspace = run(tmp_path / "run", weights="first")
    policy = workspace.policy(1, rounds=1)
    made = released(workspace, releases)
    assert made.folder == releases.root / "1"
    assert manifests.read_manifest(made.folder) == manifests.read_manifest(policy)
    assert model_identity(str(releases.root / "current")) == model_identity(str(policy))
    assert (made.folder / "tokenizer" / "vocabulary.txt").is_file()
    assert made.evaluated().groups == read_candidate(workspace).groups
    assert sorted(path.name for path in releases.root.iterdir()) == [".lock", "1", "current"]


def test_back_follows_what_was_replaced(tmp_path, releases):
    """1, 2, back to 1, then 3 replaces 1: back from 3 is 1, not the withdrawn 2."""
    with pytest.raises(BadInputError, match="nothing is released"):
        releases.back()
    assert not releases.root.exists()
    released(run(tmp_path / "a", weights="a"), releases)
    with pytest.raises(BadInputError, match="release 1 is the first"):
        releases.back()
    released(run(tmp_path / "b", weights="b"), releases)
    assert releases.current().record.number == 2
    assert releases.back().record.number == 1
    assert releases.current().record.number == 1
    third = released(run(tmp_path / "c", weights="c"), releases)
    assert (third.record.number, third.record.facts.replaces) == (3, 1)
    assert releases.back().record.number == 1
    assert [one.record.number for one in releases.all()] == [1, 2, 3]


def test_killed_between_copy_and_pointer(tmp_path, releases):
    """The released policy stays; the same release again uses the copy, and leaves nothing behind."""
    released(run(tmp_path / "a", weights="a"), releases)
    later = run(tmp_path / "b", weights="b")
    killed(later, releases)
    assert releases.current().record.number == 1
    assert model_identity(str(releases.root / "current")) == releases.read(1).record.facts.policy
    copied = releases.read(2)
    assert released(later, releases) == copied
    assert releases.current() == copied
    names = sorted(path.name for path in releases.root.iterdir())
    assert names == [".lock", "1", "2", "current"]


def test_killed_in_the_first_release(tmp_path, releases):
    """Nothing is released; another candidate becomes release 2, and 1 was never released."""
    killed(run(tmp_path / "a", weights="a"), releases)
    assert releases.current() is None
    made = released(run(tmp_path / "b", weights="b"), releases)
    assert (made.record.number, made.record.facts.replaces) == (2, None)


def test_killed_while_copying(tmp_path, releases):
    """A partial copy is never a release, and is removed by the next."""
    workspace = run(tmp_path / "run", weights="x" * (64 << 20))
    released(run(tmp_path / "first", weights="first"), releases)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(workspace.root), str(releases.root)], cwd=REPOSITORY
    )
    partial = releases.root / ".2.fresh"
    deadline = time.monotonic() + 120
    while not partial.exists() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.kill()
    process.wait()
    assert partial.exists()
    assert releases.current().record.number == 1
    assert released(workspace, releases).record.number == 2
    assert not partial.exists()


def test_another_release_meanwhile_is_noticed(tmp_path, releases):
    """A request is valid for the release that it was compared with."""
    released(run(tmp_path / "a", weights="a"), releases)
    stale = make_request(run(tmp_path / "b", weights="b"), releases)
    released(run(tmp_path / "c", weights="c"), releases)
    with pytest.raises(ReasonloopError, match="promote it again"):
        release(stale, releases)
    assert releases.current().record.number == 2


def test_two_releases_at_once(tmp_path, releases):
    """Of two threads with the same comparison one releases, the other is refused."""
    requests = [make_request(run(tmp_path / name, weights=name), releases) for name in "ab"]
    refused = []

    def approve(request):
        try:
            release(request, releases)
        except ReasonloopError as error:
            refused.append(error)

    threads = [threading.Thread(target=approve, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert releases.current().record.number == 1


def test_a_candidate_trained_meanwhile_is_not_released(tmp_path, releases):
    """The weights that are copied are the weights that were compared."""
    request = make_request(run(tmp_path / "a", weights="a"), releases)
    run(tmp_path / "a", weights="trained meanwhile")
    with pytest.raises(ReasonloopError, match="trained again"):
        release(request, releases)
    assert releases.all() == []


def test_damage_is_named(tmp_path, releases):
    """Damaged weights stop the way back; a link to nothing and a damaged record are one line."""
    released(run(tmp_path / "a", weights="a"), releases)
    released(run(tmp_path / "b", weights="b"), releases)
    (releases.root / "1" / "model.safetensors").write_text("damaged", "utf-8")
    with pytest.raises(CorruptArtifactError, match=r"1/model\.safetensors"):
        releases.back()
    assert releases.current().record.number == 2
    (releases.root / "2" / "release" / "record.json").write_text('{"number": 2}', "utf-8")
    with pytest.raises(CorruptArtifactError, match=r"2/release/record\.json"):
        releases.current()
    (releases.root / "current").unlink()
    (releases.root / "current").symlink_to("7")
    with pytest.raises(BadInputError, match="links to 7"):
        releases.current()
