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

import pytest

from pipeline_lib.records import Status
from pipeline_lib.verification.sandbox.client import (
    JailedInterpreter,
    JailRefusedError,
    TestSuite,
)

TIMEOUT_S = 1.0
PREAMBLE = """
import ctypes, os, signal, socket, sys
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"

def tried(action):
    try:
        action()
    except (OSError, MemoryError, RuntimeError, AttributeError, ValueError):
        return "refused"
    return "done"

def call(number_x86, number_arm, *arguments):
    number = number_x86 if X86 else number_arm
    if LIBC.syscall(number, *[a if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]) < 0:
        raise OSError(ctypes.get_errno(), "refused")
"""

REFUSED = {
    "memory as one list": "[0] * (1 << 27)",
    "memory by mmap": "__import__('mmap').mmap(-1, 1 << 30)",
    "memory by bytearray": "bytearray(1 << 30)",
    "memory by memfd": "os.ftruncate(os.memfd_create('x'), 1 << 30)",
    "memory by SysV segment": "call(29, 194, 0, 1 << 30, 0o1666)",
    "SysV message queue": "call(68, 186, 0, 0o1666)",
    "SysV semaphores": "call(64, 190, 0, 1, 0o1666)",
    "POSIX message queue": "call(240, 180, b'/queue', 0o102, 0o600, 0)",
    "locked memory": "call(149, 228, 4096, 4096)",
    "fork": "os.fork()",
    "vfork": "call(58, 220)",
    "clone into a namespace": "call(56, 220, 0x10000000 | 17, 0, 0, 0, 0)",
    "clone3": "call(435, 435, bytes(88), 88)",
    "thread": "__import__('_thread').start_new_thread(lambda: None, ())",
    "exec": "os.execv('/bin/true', ['true'])",
    "exec of the interpreter": "os.execv(sys.executable, ['python'])",
    "spawn": "__import__('subprocess').run(['true'])",
    "shadow passwords": "open('/etc/shadow').read()",
    "user list": "open('/etc/passwd').read()",
    "environment of the parent": "open(f'/proc/{os.getppid() or 1}/environ').read()",
    "environment of all": "[open(f'/proc/{n}/environ').read() for n in os.listdir('/proc')]",
    "own memory": "open('/proc/self/mem', 'r+b')",
    "kernel's core pattern": "open('/proc/sys/kernel/core_pattern', 'w')",
    "cgroups": "os.listdir('/sys/fs/cgroup')",
    "home folders": "[os.listdir('/root'), os.listdir('/home')]",
    "file in the root": "open('/escape', 'w')",
    "folder in the root": "os.mkdir('/escape')",
    "file in the library": "open(os.path.join(os.path.dirname(os.__file__), 'site.py'), 'a')",
    "delete from the library": "os.unlink(os.__file__)",
    "change of mode": "os.chmod(os.__file__, 0o777)",
    "change of owner": "os.chown(os.__file__, os.getuid(), os.getgid())",
    "change of time": "os.utime(os.__file__)",
    "extended attribute": "os.setxattr(os.__file__, 'user.x', b'1')",
    "truncation": "os.truncate(os.__file__, 0)",
    "hard link": "os.link(os.__file__, '/tmp/link')",
    "device node": "os.mknod('/tmp/device', 0o020666, os.makedev(1, 1))",
    "block device": "open('/dev/vda', 'rb')",
    "physical memory": "open('/dev/mem', 'rb')",
    "terminal": "open('/dev/tty', 'rb')",
    "internet socket": "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
    "datagram socket": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
    "raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "packet socket": "socket.socket(17, socket.SOCK_RAW)",
    "netlink": "socket.socket(16, socket.SOCK_RAW, 0)",
    "unix socket": "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)",
    "datagram socket pair": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "name look-up": "socket.getaddrinfo('localhost', 80)",
    "kill everyone": "os.kill(-1, 9)",
    "kill own group": "os.kill(0, 9)",
    "kill the parent": "os.kill(os.getppid() or -1, 9)",
    "kill PID 1": "os.kill(1, 9) if os.getpid() != 1 else os.kill(2, 9)",
    "kill neighbours": "[os.kill(os.getpid() + n, 9) for n in (-2, -1, 1, 2)]",
    "kill a group": "os.killpg(os.getppid() or 1, 9)",
    "queue a signal": "call(129, 138, os.getppid() or 1, 9, 0)",
    "signal by pidfd": "signal.pidfd_send_signal(os.pidfd_open(os.getppid() or 1), 9)",
    "signal by file owner": "__import__('fcntl').fcntl(3, 8, os.getppid() or 1)",
    "ptrace": "call(101, 117, 0, 0, 0, 0)",
    "read another's memory": "call(310, 270, os.getppid() or 1, 0, 0, 0, 0, 0)",
    "take another's descriptor": "call(438, 438, 3, 0, 0)",
    "unshare": "call(272, 97, 0x10000000)",
    "join a namespace": "call(308, 268, 3, 0)",
    "mount": "call(165, 40, b'none', b'/tmp', b'tmpfs', 0, 0)",
    "new mount interface": "call(430, 430, b'tmpfs', 0)",
    "pivot_root": "call(155, 41, b'.', b'.')",
    "chroot": "os.chroot('/tmp')",
    "setuid": "os.setuid(0)",
    "setresuid": "os.setresuid(0, 0, 0)",
    "set groups": "os.setgroups([0])",
    "regain capabilities": "call(126, 91, b'\\x22\\x05\\x08\\x20\\0\\0\\0\\0', b'\\xff' * 24)",
    "lift no_new_privs": "call(157, 167, 38, 0, 0, 0, 0)",
    "outlive the parent": "call(157, 167, 1, 0, 0, 0, 0)",
    "raise a limit": "__import__('resource').setrlimit(9, (-1, -1))",
    "limit of another": "__import__('resource').prlimit(os.getppid() or 2, 9, (1, 1))",
    "io_uring": "call(425, 425, 8, 0)",
    "bpf": "call(321, 280, 0, 0, 0)",
    "perf": "call(298, 241, 0, 0, -1, -1, 0)",
    "userfaultfd": "call(323, 282, 0)",
    "keyring": "call(250, 219, 0, -3, 0)",
    "fanotify": "call(300, 262, 0, 0)",
    "asynchronous I/O": "call(206, 0, 8, bytes(8))",
    "kernel module": "call(313, 273, 0, b'', 0)",
    "kexec": "call(246, 104, 0, 0, 0, 0)",
    "reboot": "call(169, 142, 0, 0, 0, 0)",
    "swap": "call(167, 224, b'/tmp', 0)",
    "set the clock": "__import__('time').clock_settime(0, 0)",
    "set the host's name": "socket.sethostname('mine')",
    "real-time scheduling": "os.sched_setscheduler(0, 1, os.sched_param(1))",
    "processor affinity": "os.sched_setaffinity(0, {0})",
    "terminal injection": "__import__('fcntl').ioctl(0, 0x5412, b'x')",
    "file handle": "call(304, 265, -100, b'\\0' * 16, 0)",
    "openat2": "call(437, 437, -100, b'/', bytes(24), 24)",
    "file lease": "__import__('fcntl').fcntl(os.open(os.__file__, os.O_RDONLY), 1024, 0)",
    "big pipe": "__import__('fcntl').fcntl(os.pipe()[0], 1031, 1 << 20)",
    "many descriptors": "[os.dup(0) for _ in range(1000)]",
}

CUT_OFF = {
    "infinite loop": ("while True: pass", {Status.TIMEOUT}),
    "loop at import": (None, {Status.TIMEOUT}),
    "ignores SIGTERM": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    while True: pass",
        {Status.TIMEOUT},
    ),
    "ignores all signals": (
        (
            "[signal.signal(n, signal.SIG_IGN) for n in range(1, 31) if n not in (9, 19)]\n"
            "    while True: pass"
        ),
        {Status.TIMEOUT},
    ),
    "hang in C": ("return 9**9**8", {Status.TIMEOUT}),
    "hang in a regular expression": (
        "return __import__('re').match('(a+)+$', 'a' * 40 + 'b')",
        {Status.TIMEOUT},
    ),
    "sleep": ("__import__('time').sleep(1000)", {Status.TIMEOUT}),
    "blocked for ever": ("os.read(os.pipe()[0], 1)", {Status.TIMEOUT}),
    "swallows all exceptions": (
        (
            "while True:\n        try:\n            raise SystemExit\n"
            "        except BaseException:\n            pass"
        ),
        {Status.TIMEOUT},
    ),
    "slow answer, byte by byte": (
        (
            "import time\n    os.write(3, bytes([0, 0, 255, 0]))\n"
            "    while True: os.write(3, b'1'); time.sleep(0.01)"
        ),
        {Status.TIMEOUT},
    ),
    "memory bit by bit": (
        "kept = []\n    while True: kept.append(bytearray(1 << 20))",
        {Status.MEMORY},
    ),
    "recursion in Python": (
        "sys.setrecursionlimit(10**9)\n    f = lambda: f()\n    return f()",
        {Status.MEMORY, Status.CRASHED, Status.TIMEOUT},
    ),
    "a value too large": ("return 'x' * (100 << 20)", {Status.OUTPUT_LIMIT, Status.MEMORY}),
    "a value nested too deeply": (
        "value = []\n    for _ in range(100000): value = [value]\n    return value",
        {Status.WRONG, Status.CRASHED},
    ),
    "a set that hashes slowly": (
        "return {n * (2**61 - 1) for n in range(1, 60000)}",
        {Status.TIMEOUT},
    ),
    "infinite print": ("while True: print('x' * 100)", {Status.OUTPUT_LIMIT}),
    "one endless line": (
        "while True: os.write(1, b'x' * 65536)",
        {Status.OUTPUT_LIMIT},
    ),
    "errors without end": ("while True: os.write(2, b'x' * 65536)", {Status.OUTPUT_LIMIT}),
    "segfault": ("ctypes.string_at(0)", {Status.CRASHED}),
    "abort": ("os.abort()", {Status.CRASHED}),
    "stack overflow in C": (
        (
            "sys.setrecursionlimit(10**9)\n    one, other = [], []\n"
            "    for _ in range(10**5): one, other = [one], [other]\n    return one == other"
        ),
        {Status.CRASHED},
    ),
    "exit at once": ("os._exit(0)", {Status.CRASHED}),
    "kills itself": ("os.kill(os.getpid(), 11)\n    os._exit(0)", {Status.CRASHED}),
    "closes its channel": ("os.close(3)\n    while True: pass", {Status.CRASHED}),
    "closes everything": ("os.closerange(0, 100)\n    while True: pass", {Status.CRASHED}),
    "fork bomb": ("while True: os.fork()", {Status.CRASHED}),
    "thread bomb": (
        "import threading\n    while True: threading.Thread(target=lambda: 0).start()",
        {Status.CRASHED},
    ),
    "daemon by double fork": (
        "if os.fork() == 0:\n        os.setsid()\n        os.fork()",
        {Status.CRASHED},
    ),
    "null bytes in the program": ("return '\0'", {Status.MALFORMED}),
    "deep nesting in the program": (
        "return " + "(" * 5000 + ")" * 5000,
        {Status.MALFORMED, Status.MEMORY, Status.CRASHED},
    ),
}

LOYAL = "def attack():\n    return 'refused'\n"
REFUSED_SUITE = TestSuite(entry_point="attack", tests="assert attack() == 'refused'")


@pytest.fixture(scope="module", params=["namespace", "landlock"])
def jailed(request: pytest.FixtureRequest) -> Iterator[JailedInterpreter]:
    try:
        interpreter = JailedInterpreter(request.param, timeout_s=TIMEOUT_S, memory_bytes=256 << 20)
    except JailRefusedError as error:
        pytest.skip(f"tier {request.param}: {error}")
    with interpreter:
        yield interpreter


@pytest.mark.parametrize("name", REFUSED)
def test_attempt_is_refused(jailed, name):
    """The attempt raises in the jail, and the same jail then runs a loyal program."""
    program = f"{PREAMBLE}\ndef attack():\n    return tried(lambda: {REFUSED[name]})\n"
    report = jailed.run(program, REFUSED_SUITE)
    assert report.status is Status.CORRECT, report.detail
    assert jailed.run(LOYAL, REFUSED_SUITE).status is Status.CORRECT


@pytest.mark.parametrize("name", CUT_OFF)
def test_program_is_cut_off(jailed, name):
    """The program ends with the status that says why, and the same jail then runs a loyal one."""
    body, expected = CUT_OFF[name]
    program = f"{PREAMBLE}\ndef attack():\n    {body}\n"
    if body is None:
        program = "while True: pass\n"
    report = jailed.run(program, REFUSED_SUITE)
    assert report.status in expected, report.detail
    assert report.seconds < TIMEOUT_S + 3
    assert jailed.run(LOYAL, REFUSED_SUITE).status is Status.CORRECT


def test_what_is_kept_of_the_output_is_bounded(jailed):
    """Of 1 MiB and more, 64 KiB are kept; of a little, all."""
    endless = f"{PREAMBLE}\ndef attack():\n    while True: os.write(1, b'x' * 4096)\n"
    assert len(jailed.run(endless, REFUSED_SUITE).output) == 64 << 10
    brief = "import sys\nprint('seen', file=sys.stderr)\n" + LOYAL
    assert jailed.run(brief, REFUSED_SUITE).output == "seen\n"


def test_half_a_megabyte_of_output_is_no_fault(jailed):
    """512 KiB lie under the limit of 1 MiB, so the program is judged by its value."""
    chatty = f"import os\nfor _ in range(8): os.write(1, b'x' * 65536)\n{LOYAL}"
    report = jailed.run(chatty, REFUSED_SUITE)
    assert (report.status, len(report.output)) == (Status.CORRECT, 64 << 10)


def test_environment_is_scrubbed(jailed):
    """A program sees the jail's own variables only, never a token of ours."""
    program = "import os\ndef attack():\n    return sorted(os.environ)\n"
    suite = TestSuite(
        entry_point="attack",
        tests="assert set(attack()) <= {'LANG', 'LC_CTYPE', 'PATH', 'PYTHONHASHSEED'}",
    )
    report = jailed.run(program, suite)
    assert report.status is Status.CORRECT, report.detail


def test_only_four_descriptors_are_inherited(jailed):
    """Standard streams and the channel: 0, 1, 2, 3, and nothing of the client's."""
    program = """
import os
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
    suite = TestSuite(entry_point="attack", tests="assert attack() == [0, 1, 2, 3]")
    assert jailed.run(program, suite).status is Status.CORRECT


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


def test_disk_is_bounded(jailed):
    """Neither one huge file nor very many files fit: at most 16 MiB and 1,024 files."""
    program = """
import os
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
    return size <= 16 << 20 and count <= 1024
"""
    suite = TestSuite(entry_point="attack", tests="assert attack() is True")
    report = jailed.run(program, suite)
    assert report.status is Status.CORRECT, report.detail


def test_listener_on_this_machine_is_out_of_reach(jailed):
    """A TCP and an abstract unix listener of ours see no connection, even by raw system calls."""
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


def test_namespace_jail_shows_next_to_nothing():
    """In the namespace tier the root holds libraries, a few devices and the scratch folder."""
    try:
        interpreter = JailedInterpreter("namespace", timeout_s=5, memory_bytes=256 << 20)
    except JailRefusedError as error:
        pytest.skip(str(error))
    program = "import os\ndef attack():\n    return [os.getpid(), os.listdir('/dev'), os.path.exists('/proc')]\n"
    suite = TestSuite(
        entry_point="attack",
        tests="pid, devices, proc = attack()\n"
        "assert pid == 1\nassert not proc\n"
        "assert sorted(devices) == ['null', 'random', 'urandom', 'zero']",
    )
    with interpreter:
        report = interpreter.run(program, suite)
    assert report.status is Status.CORRECT, report.detail


def test_there_are_enough_hostile_programs():
    """The list is part of the claim: at least 60 kinds of attack."""
    assert len(REFUSED) + len(CUT_OFF) >= 60
