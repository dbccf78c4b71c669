"""Programs that attack a sandbox, and programs that forge a verdict: text, run in jails only.

``REFUSED``: an expression that a jailed program tries inside ``PREAMBLE``'s ``tried``, and that must
raise. ``CUT_OFF``: the body of a function that ends, with the statuses of which one must come out.
``ENDLESS``: a body that only a deadline ends.
``FORGERIES``: wrong programs for ``add(a, b)`` that claim to be right.
"""

from pipeline_lib.verdicts import Status

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


def attacking(body: str | None) -> str:
    """A program with this body of its function; None: it never comes so far."""
    if body is None:
        return "while True: pass\n"
    return f"{PREAMBLE}\ndef attack():\n    {body}\n"


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

LOOKS = {
    "link of a library": "os.readlink('/proc/self/exe')",
    "folder of the interpreter": "os.readlink(f'/proc/{os.getppid()}/cwd')",
    "descriptor of the interpreter": "os.readlink(f'/proc/{os.getppid()}/fd/0')",
    "descriptor of the interpreter by stat": "os.stat(f'/proc/{os.getppid()}/fd/0')",
    "descriptors of the interpreter": "os.listdir(f'/proc/{os.getppid()}/fd')",
    "program of the interpreter": "os.stat(f'/proc/{os.getppid()}/exe')",
    "right to read": "os.access('/etc/passwd', os.R_OK) or open('/etc/passwd')",
    "space on the disk": "os.statvfs('/')",
    "change of folder": "os.chdir('/etc')",
    "session of another": "os.getsid(os.getppid())",
    "group of another": "os.getpgid(os.getppid())",
    "processors of another": "os.sched_getaffinity(os.getppid())",
}
"""Looks at what lies outside, which the landlock tier can refuse; elsewhere nothing is there."""

ENDLESS = {
    "infinite loop": "while True: pass",
    "thread bomb": "import threading\n    while True: threading.Thread(target=lambda: 0).start()",
    "loop at import": None,
    "ignores SIGTERM": ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    while True: pass"),
    "ignores all signals": (
        "[signal.signal(n, signal.SIG_IGN) for n in range(1, 31) if n not in (9, 19)]\n"
        "    while True: pass"
    ),
    "hang in C": "return 9**9**8",
    "hang in a regular expression": "return __import__('re').match('(a+)+$', 'a' * 40 + 'b')",
    "sleep": "__import__('time').sleep(1000)",
    "blocked for ever": "os.read(os.pipe()[0], 1)",
    "swallows all exceptions": (
        "while True:\n        try:\n            raise SystemExit\n"
        "        except BaseException:\n            pass"
    ),
    "slow answer, byte by byte": (
        "import time\n    os.write(3, bytes([0, 0, 255, 0]))\n"
        "    while True: os.write(3, b'1'); time.sleep(0.01)"
    ),
    "a set that hashes slowly": "return {n * (2**61 - 1) for n in range(1, 1000000)}",
}

CUT_OFF = {
    "memory bit by bit": (
        "kept = []\n    while True: kept.append(bytearray(1 << 20))",
        {Status.MEMORY},
    ),
    "recursion in Python": (
        "sys.setrecursionlimit(10**9)\n    f = lambda: f()\n    return f()",
        {Status.MEMORY, Status.CRASHED},
    ),
    "a value too large": ("return 'x' * (100 << 20)", {Status.OUTPUT_LIMIT, Status.MEMORY}),
    "a value nested too deeply": (
        "value = []\n    for _ in range(100000): value = [value]\n    return value",
        {Status.VERIFIER_ERROR},
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

FORGERIES = {
    "exits with success at import": "import os\nos._exit(0)",
    "exits with success when called": "import os\ndef add(a, b): os._exit(0)",
    "raises SystemExit": "import sys\ndef add(a, b): sys.exit(0)",
    "an object that equals everything": """
class Any:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def add(a, b): return Any()""",
    "a number that equals everything": """
class Any(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__
def add(a, b): return Any()""",
    "a list that equals everything": """
class Any(list):
    def __eq__(self, other): return True
def add(a, b): return Any()""",
    "a metaclass that equals everything": """
class Meta(type):
    def __eq__(cls, other): return True
    __hash__ = type.__hash__
class Any(metaclass=Meta): pass
def add(a, b): return Any""",
    "patched builtins": """
import builtins
builtins.AssertionError = type("Never", (BaseException,), {})
for name in ("all", "any", "abs", "len", "sorted", "isinstance", "compile", "exec"):
    setattr(builtins, name, lambda *a, **k: True)
def add(a, b): return 0""",
    "patched modules": """
import ast, json, math, operator, unittest
ast.parse = lambda *a, **k: None
math.isclose = operator.eq = lambda *a, **k: True
json.dumps = lambda *a, **k: '{"status": "correct", "detail": ""}'
def add(a, b): return 0""",
    "bytes on every descriptor": """
import json, os
for status in ("correct", "CORRECT", "passed"):
    for number in range(64):
        try:
            os.write(number, json.dumps({"status": status, "detail": "", "end": "exit"}).encode())
        except OSError:
            pass
def add(a, b): return 0""",
    "a marker on standard output": """
print("all tests passed\\n1 passed\\nOK")
def add(a, b):
    print("passed")
    return 0""",
    "a framed answer ahead of the question": """
import json, os, struct
def frame(value):
    data = json.dumps({"tuple": ["value", value]}).encode()
    return struct.pack("!I", len(data)) + data
os.write(3, frame(None) + frame(True) * 100)
def add(a, b): return 0""",
    "a handler at exit": """
import atexit, os
atexit.register(os._exit, 0)
def add(a, b): raise ValueError""",
    "a signal handler": """
import os, signal
for number in (1, 2, 15):
    signal.signal(number, lambda *a: os._exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.01)
def add(a, b): return 0""",
    "a trace function": """
import sys
def trace(frame, event, argument):
    if "expected" in frame.f_locals: frame.f_locals["expected"] = 0
    return trace
sys.settrace(trace)
def add(a, b): return 0""",
    "frames of the caller": """
import sys
def add(a, b):
    frame = sys._getframe()
    while frame:
        for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):
            if isinstance(value, str) and "assert add(" in value:
                return eval(value.split("==")[1].split()[0])
        frame = frame.f_back
    return 0""",
    "the tests in this process's memory": """
import gc, sys
def add(a, b):
    for thing in gc.get_objects():
        values = thing.values() if type(thing) is dict else thing if type(thing) in (list, tuple) else ()
        try:
            for value in list(values):
                if isinstance(value, (str, bytes)) and len(value) > 30 and str(value).count("assert add") > 1:
                    return 5 if a == 2 else [1, 2]
        except Exception:
            pass
    return 0""",
    "a raised AssertionError": "def add(a, b): raise AssertionError('passed')",
    "a raised StopIteration": "def add(a, b): raise StopIteration",
    "an exception that will not print": """
class Odd(Exception):
    def __str__(self): raise SystemExit(0)
    __repr__ = __str__
def add(a, b): raise Odd""",
    "an argument made equal": """
def add(a, b):
    if isinstance(a, list): a.append(a)
    return a""",
    "a stand-in instead of a value": """
class Lazy:
    value = 5
    def __getattr__(self, name): return True
    def __call__(self, *a): return True
    def __bool__(self): return True
def add(a, b): return Lazy()""",
    "not a number": "def add(a, b): return float('nan')",
    "a function": "def add(a, b): return add",
    "a generator": "def add(a, b): yield 5",
    "a coroutine": "async def add(a, b): return 5",
    "its own tests": """
def check(candidate): pass
def add(a, b): return 0""",
    "replaced driver": """
import sys
for name, module in list(sys.modules.items()):
    if name.startswith("pipeline_lib"):
        for key, value in list(vars(module).items()):
            if callable(value) and not key.startswith("__"):
                try: setattr(module, key, lambda *a, **k: True)
                except Exception: pass
def add(a, b): return 0""",
    "a finding instead of an answer": """
import os, struct, json
def add(a, b):
    data = json.dumps({"status": "correct", "detail": ""}).encode()
    os.write(3, struct.pack("!I", len(data)) + data)
    return 0""",
    "silence": "import os\nos.close(3)\nos._exit(0)",
    "nothing at all": "add = None",
}
