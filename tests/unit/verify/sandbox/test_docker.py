"""The docker tier against the same attacks, where a daemon runs or can be started.

Without a daemon, the tests start one and stop it again; without Docker, root on a Debian gets
it installed first. The image is made from the interpreter that runs the tests, so nothing is pulled.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator

import pytest

from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.params.paths import CodeLimits
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.code import CodeJudge
from pipeline_lib.verify.sandbox import tiers
from pipeline_lib.verify.sandbox.client import JailRefusedError, TestSuite
from pipeline_lib.verify.sandbox.docker import DockerSandbox
from pipeline_lib.verify.sandbox.tiers import failed_self_test
from tests.unit.verify.sandbox.hostile_programs import (
    CUT_OFF,
    ENDLESS,
    FORGERIES,
    PREAMBLE,
    REFUSED,
    attacking,
)

pytestmark = pytest.mark.slow

IMAGE = f"reasonloop-test:{os.getpid()}"
THE_IMAGES_OWN = {"user list", "cgroups", "name look-up"}
"""A container has its own /etc/passwd, control groups and hosts file; there is nothing to guard."""
DAEMON_START_S = 30
ADD = CodeGold(entry_point="add", tests="assert add(2, 3) == 5\nassert add([1], [2]) == [1, 2]\n")


def answers() -> bool:
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if shutil.which("docker") and answers():
        yield
        return
    if os.geteuid() != 0:
        pytest.skip("no docker daemon answers, and only root could start one")
    if not (shutil.which("docker") and shutil.which("dockerd")):
        install()
    folder = tmp_path_factory.mktemp("docker")
    address = f"unix://{folder}/socket"
    command = ["dockerd", f"--data-root={folder}/data", f"--exec-root={folder}/exec"]
    command += [f"--host={address}", f"--pidfile={folder}/pid", "--iptables=false", "--bridge=none"]
    with (
        pytest.MonkeyPatch.context() as patch,
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        patch.setenv("DOCKER_HOST", address)
        end = time.monotonic() + DAEMON_START_S
        while not answers():
            if process.poll() is not None or time.monotonic() > end:
                process.terminate()
                pytest.skip(f"dockerd does not start: {(folder / 'log').read_text()[-300:]}")
            time.sleep(0.2)
        yield
        process.terminate()


def install() -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("there is no docker, and no apt-get to install docker.io with")
    command = ["apt-get", "install", "--yes", "--no-install-recommends", "docker.io"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode or shutil.which("dockerd") is None:
        pytest.skip(f"docker.io cannot be installed: {answer.stderr.strip()[-300:]}")


@pytest.fixture(scope="module")
def image(daemon: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    archive = tmp_path_factory.mktemp("image") / "root.tar"
    pack_interpreter(archive)
    subprocess.run(["docker", "import", str(archive), IMAGE], capture_output=True, check=True)
    yield IMAGE
    subprocess.run(["docker", "rmi", "--force", IMAGE], capture_output=True, check=True)


def pack_interpreter(archive: pathlib.Path) -> None:
    """This interpreter, its standard library and their shared libraries as a root file system."""
    executable = pathlib.Path(sys.executable).resolve()
    library = pathlib.Path(os.__file__).parent
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    linked = {
        line for path in [executable, *library.glob("lib-dynload/*.so")] for line in needs(path)
    }
    with tarfile.open(archive, "w", dereference=True) as tar:
        tar.add(executable, "usr/local/bin/python3")
        for entry in sorted(library.iterdir()):
            if entry.name not in {"site-packages", "test", "__pycache__"}:
                tar.add(entry, f"usr/local/lib/{version}/{entry.name}")
        for path in sorted(linked):
            tar.add(path, path.lstrip("/"))
        for folder in ("tmp", "proc", "sys", "dev", "etc", "opt"):
            made = tarfile.TarInfo(folder)
            made.type, made.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(made)


def needs(path: pathlib.Path) -> list[str]:
    answer = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False)
    words = answer.stdout.split()
    return [word for word in words if word.startswith("/") and pathlib.Path(word).exists()]


@pytest.fixture(scope="module")
def sandbox(image: str) -> DockerSandbox:
    """For programs that end by themselves."""
    return DockerSandbox(timeout_s=300, memory_bytes=256 << 20, image=image)


@pytest.fixture(scope="module")
def hurried(image: str) -> DockerSandbox:
    """For programs that must run into their deadline."""
    return DockerSandbox(timeout_s=1, memory_bytes=256 << 20, image=image)


def test_self_test_passes(sandbox, hurried):
    """The self-test that decides at start-up on a tier passes here."""
    assert failed_self_test(sandbox, tiers.ENDING) == ""
    assert failed_self_test(hurried, tiers.ENDLESS) == ""


@pytest.mark.parametrize("name", sorted(set(REFUSED) - THE_IMAGES_OWN))
def test_attempt_is_refused(sandbox, name):
    """The attempt raises in the container as it does in a jail."""
    program = f"{PREAMBLE}\ndef attack():\n    return tried(lambda: {REFUSED[name]})\n"
    suite = TestSuite(entry_point="attack", tests="assert attack() == 'refused'")
    report = sandbox.run(program, suite)
    assert report.status is Status.CORRECT, report.detail


@pytest.mark.parametrize("name", CUT_OFF)
def test_program_is_cut_off(sandbox, name):
    """The status is the one that the other tiers give."""
    body, expected = CUT_OFF[name]
    suite = TestSuite(entry_point="attack", tests="assert attack() == 'refused'")
    report = sandbox.run(attacking(body), suite)
    assert report.status in expected, report.detail


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_program_is_cut_off_by_the_clock(hurried, name):
    """A program that only a deadline ends is a timeout here too."""
    suite = TestSuite(entry_point="attack", tests="assert attack() == 'refused'")
    report = hurried.run(attacking(ENDLESS[name]), suite)
    assert report.status is Status.TIMEOUT, report.detail


@pytest.mark.parametrize("name", FORGERIES)
def test_forgery_scores_zero(hurried, name):
    """A forged verdict is not believed here either."""
    judge = CodeJudge(hurried)
    verdict = judge.judge(ADD, FORGERIES[name])
    assert verdict.status not in {Status.CORRECT, Status.VERIFIER_ERROR}, verdict
    assert (verdict.strict, verdict.lenient) == (False, False)


def test_honest_program_is_believed(sandbox):
    """The program that adds is right."""
    judge = CodeJudge(sandbox)
    assert judge.judge(ADD, "def add(a, b):\n    return a + b\n").status is Status.CORRECT


def test_no_container_is_left(hurried):
    """After a timeout and a crash, no container of the sandbox is left."""
    suite = TestSuite(entry_point="f", tests="assert f() == 1")
    for program in ("def f():\n    while True: pass\n", "import os\nos.abort()\n"):
        hurried.run(program, suite)
    listing = ["docker", "ps", "--all", "--quiet", "--filter", "name=reasonloop-"]
    assert subprocess.run(listing, capture_output=True, check=True).stdout == b""


def test_client_killed_in_a_run_leaves_no_container(image):
    """SIGKILL of the client closes the container's standard input, which ends it."""
    script = (
        "from pipeline_lib.verify.sandbox.docker import DockerSandbox, TestSuite\n"
        f"sandbox = DockerSandbox(timeout_s=60, memory_bytes=256 << 20, image={image!r})\n"
        "sandbox.run('import time; time.sleep(60)', TestSuite(entry_point='f', tests='f()'))\n"
    )
    listing = ["docker", "ps", "--quiet", "--filter", "name=reasonloop-"]

    def containers() -> bytes:
        return subprocess.run(listing, capture_output=True, check=True).stdout

    with subprocess.Popen([sys.executable, "-c", script]) as client:
        assert waited(lambda: containers() != b"", 10)
        client.kill()
    assert waited(lambda: containers() == b"", 5)


def waited(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return bool(condition())


def test_missing_image_is_named(daemon):
    """An image is never pulled; the reason says which one to get."""
    with pytest.raises(JailRefusedError, match="docker pull no-such-image:local"):
        DockerSandbox(timeout_s=1, memory_bytes=1 << 28, image="no-such-image:local")


def test_default_limits_are_those_of_the_reference():
    """256 MB and 30 s."""
    assert (CodeLimits().memory_mb, CodeLimits().timeout_s) == (256, 30.0)
