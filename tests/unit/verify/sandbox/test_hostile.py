"""Hostile programs, one by one, in each tier: none gets out, none harms the next run.

A program defines ``attack()``. Most return what became of the attempt, and the expected status is
``correct`` for the tests ``assert attack() == "refused"``; others must be cut off with the status
that is named beside them. Nothing here is ever run outside a jail.
"""

import os
import pathlib
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing

import pytest

from pipeline_lib.verdicts import Status
from pipeline_lib.verify.sandbox import client
from pipeline_lib.verify.sandbox.client import JailedInterpreter, JailRefusedError, TestSuite
from tests.unit.verify.sandbox.hostile_programs import (
    CUT_OFF,
    ENDLESS,
    LOOKS,
    PREAMBLE,
    REFUSED,
    attacking,
)

TIMEOUT_S = 1.0
"""Of programs that must run into it."""
PATIENT_S = 300.0
"""Of programs that end by themselves, however slow the machine."""
LOYAL = "def attack():\n    return 'refused'\n"
REFUSED_SUITE = TestSuite(entry_point="attack", tests="assert attack() == 'refused'")


@pytest.fixture(scope="module", params=["namespace", "landlock"])
def jailed(request: pytest.FixtureRequest) -> Iterator[JailedInterpreter]:
    try:
        interpreter = JailedInterpreter(request.param, timeout_s=PATIENT_S, memory_bytes=256 << 20)
    except JailRefusedError as error:
        pytest.skip(f"tier {request.param}: {error}")
    with closing(interpreter):
        yield interpreter


@pytest.fixture
def hurried(jailed: JailedInterpreter) -> Iterator[JailedInterpreter]:
    """The same jail, whose programs have ``TIMEOUT_S`` each."""
    jailed._timeout_s = TIMEOUT_S
    yield jailed
    jailed._timeout_s = PATIENT_S


@pytest.mark.parametrize("name", REFUSED)
def test_attempt_is_refused(jailed, name):
    """The attempt raises in the jail, and the same jail then runs a loyal program."""
    program = f"{PREAMBLE}\ndef attack():\n    return tried(lambda: {REFUSED[name]})\n"
    report = jailed.run(program, REFUSED_SUITE)
    assert report.status is Status.CORRECT, report.detail
    assert jailed.run(LOYAL, REFUSED_SUITE).status is Status.CORRECT


@pytest.mark.parametrize("name", LOOKS)
@pytest.mark.parametrize("jailed", ["landlock"], indirect=True)
def test_look_is_refused_without_namespaces(jailed, name):
    """Landlock does not bar looking at files by name; what needs no library call is barred besides."""
    program = f"{PREAMBLE}\ndef attack():\n    return tried(lambda: {LOOKS[name]})\n"
    report = jailed.run(program, REFUSED_SUITE)
    assert report.status is Status.CORRECT, report.detail


@pytest.mark.parametrize("name", CUT_OFF)
def test_program_is_cut_off(jailed, name):
    """The program ends with the status that says why, and the same jail then runs a loyal one."""
    report = jailed.run(attacking(CUT_OFF[name][0]), REFUSED_SUITE)
    assert report.status in CUT_OFF[name][1], report.detail
    assert jailed.run(LOYAL, REFUSED_SUITE).status is Status.CORRECT


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_program_is_cut_off_by_the_clock(hurried, name):
    """Not before its deadline; and after it the same process of the jail runs a loyal program.

    That it is the same says that the jail itself ended the program: an answer that comes later than
    the client waits for costs the jail.
    """
    pid = hurried.pid
    report = hurried.run(attacking(ENDLESS[name]), REFUSED_SUITE)
    assert report.status is Status.TIMEOUT, report.detail
    assert report.seconds >= TIMEOUT_S
    hurried._timeout_s = PATIENT_S
    assert hurried.run(LOYAL, REFUSED_SUITE).status is Status.CORRECT
    assert hurried.pid == pid


def test_what_is_kept_of_the_output_is_bounded(jailed):
    """Of 1 MiB and more, 64 KiB are kept; of a little, all; 512 KiB are no fault."""
    endless = f"{PREAMBLE}\ndef attack():\n    while True: os.write(1, b'x' * 4096)\n"
    assert len(jailed.run(endless, REFUSED_SUITE).output) == 64 << 10
    brief = "import sys\nprint('seen', file=sys.stderr)\n" + LOYAL
    assert jailed.run(brief, REFUSED_SUITE).output == "seen\n"
    chatty = f"import os\nfor _ in range(8): os.write(1, b'x' * 65536)\n{LOYAL}"
    report = jailed.run(chatty, REFUSED_SUITE)
    assert (report.status, len(report.output)) == (Status.CORRECT, 64 << 10)


DESCRIPTORS = """
def attack():
    found = []
    for number in range(64):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    return found
"""
DISK = """
def attack():
    size = count = 0
    try:
        with open("big", "wb") as file:
            for _ in range(10240):
                size += file.write(bytes(1 << 20))
    except OSError:
        pass
    try:
        os.unlink("big")
        for count in range(200000):
            open(f"small{count}", "w").close()
    except OSError:
        pass
    return size, count
"""
SURROUNDINGS = {
    "the jail's environment": (
        "def attack(): return sorted(os.environ)\n",
        "assert set(attack()) <= {'LANG', 'LC_CTYPE', 'PATH', 'PYTHONHASHSEED'}",
    ),
    "standard streams and the channel": (DESCRIPTORS, "assert attack() == [0, 1, 2, 3]"),
    "16 MiB and 1,024 files": (
        DISK,
        "size, count = attack()\nassert size <= 16 << 20\nassert count <= 1024",
    ),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_program_has_no_more_than(jailed, name):
    """Never a token or a descriptor of the client; neither one huge file nor very many."""
    program, tests = SURROUNDINGS[name]
    report = jailed.run(f"import os\n{program}", TestSuite(entry_point="attack", tests=tests))
    assert report.status is Status.CORRECT, report.detail


@pytest.mark.parametrize("jailed", ["namespace"], indirect=True)
def test_namespace_jail_shows_next_to_nothing(jailed):
    """The root holds libraries, a few devices and the scratch folder."""
    program = (
        "import os\n"
        "def attack(): return os.getpid(), os.path.exists('/proc'), sorted(os.listdir('/dev'))\n"
    )
    tests = "assert attack() == (1, False, ['null', 'random', 'urandom', 'zero'])"
    report = jailed.run(program, TestSuite(entry_point="attack", tests=tests))
    assert report.status is Status.CORRECT, report.detail


def test_nothing_passes_from_run_to_run(jailed):
    """Modules, globals, files and working folder are as new in each run."""
    leaving = """
import builtins, json, os, sys
def attack():
    builtins.left = json.left = sys.left = True
    try:
        open("left", "w").write("x")
    except OSError:
        pass
    return "refused"
"""
    looking = """
import builtins, json, os, sys
def attack():
    left = [hasattr(m, "left") for m in (builtins, json, sys)] + [os.path.exists("left")]
    return "left" if any(left) else "refused"
"""
    for program in (leaving, looking):
        assert jailed.run(program, REFUSED_SUITE).status is Status.CORRECT


def test_packages_may_lie_in_the_temporary_folder(jailed, monkeypatch):
    """As in an environment made there: a program imports them, and they are not writable."""
    with tempfile.TemporaryDirectory(dir="/tmp") as root:
        pathlib.Path(root).chmod(0o755)
        package = pathlib.Path(root) / "numpy"
        package.mkdir()
        (package / "__init__.py").write_text("value = 5\n", encoding="utf-8")
        monkeypatch.setattr(client, "numpy_folders", lambda: [str(package)])
        program = f"{PREAMBLE}\ndef attack():\n    import numpy\n"
        program += (
            f"    return tried(lambda: open({str(package / 'x')!r}, 'w')) + str(numpy.value)\n"
        )
        suite = TestSuite(entry_point="attack", tests="assert attack() == 'refused5'")
        other = JailedInterpreter(jailed.tier, timeout_s=PATIENT_S, memory_bytes=256 << 20)
        with closing(other):
            report = other.run(program, suite)
    assert report.status is Status.CORRECT, report.detail


def test_writing_leaves_no_file_outside(jailed):
    """A program that writes wherever it can leaves none of its files on this machine."""
    name = f"escape-{os.getpid()}"
    folders = [
        "/tmp",
        "/var/tmp",
        "/dev/shm",
        "/run",
        tempfile.gettempdir(),
        str(pathlib.Path.cwd()),
    ]
    program = f"""
import os
def attack():
    for folder in {folders!r}:
        try:
            open(os.path.join(folder, {name!r}), "w").write("x")
        except OSError:
            pass
    return "refused"
"""
    assert jailed.run(program, REFUSED_SUITE).status is Status.CORRECT
    assert [f for f in folders if (pathlib.Path(f) / name).exists()] == []


def test_listener_on_this_machine_is_out_of_reach(jailed):
    """A TCP and an abstract unix listener outside see no connection, even by raw system calls."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as abstract,
    ):
        abstract.bind(b"\0listener-%d" % os.getpid())
        abstract.listen()
        address = abstract.getsockname()
        program = f"""{PREAMBLE}
def reach():
    socket.create_connection(("127.0.0.1", {tcp.getsockname()[1]}), timeout=0.2)
def reach_abstract():
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    one.sendto(b"x", {address!r})
def attack():
    return "done" if "done" in (tried(reach), tried(reach_abstract)) else "refused"
"""
        assert jailed.run(program, REFUSED_SUITE).status is Status.CORRECT
        for listener in (tcp, abstract):
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()
