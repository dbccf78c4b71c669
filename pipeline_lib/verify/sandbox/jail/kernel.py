"""Linux calls that Python does not wrap; each raises OSError with the name of the call.

Policy is elsewhere: `isolation` and `syscall_filter` decide what is allowed.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterable, Sequence

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
_MNT_DETACH = 2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_LANDLOCK_CREATE, _SYS_LANDLOCK_ADD, _SYS_LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_RULE_PATH_BENEATH = 1

_libc = ctypes.CDLL(None, use_errno=True)
# With declared argument types a forked process writes to fewer pages than with ctypes objects.
_libc.prctl.argtypes = (ctypes.c_int, *(4 * (ctypes.c_ulong,)))
_libc.capset.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
_libc.unshare.argtypes = (ctypes.c_int,)
_libc.setns.argtypes = (ctypes.c_int, ctypes.c_int)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_libc.mount.argtypes = (*(3 * (ctypes.c_char_p,)), ctypes.c_ulong, ctypes.c_char_p)
_CAPABILITY_HEADER = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
_NO_CAPABILITIES = bytes(24)


def _check(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(what: str, number: int, *arguments: object) -> int:
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _check(what, _libc.syscall(ctypes.c_long(number), *wide))


def _prctl(what: str, option: int, second: int, third: int = 0) -> None:
    _check(what, _libc.prctl(option, second, third, 0, 0))


def unshare(flags: int) -> None:
    """Enter new namespaces, by ``CLONE_NEW*`` flags."""
    _check("unshare", _libc.unshare(flags))


def enter_namespaces(pidfd: int, flags: int) -> None:
    """Join the namespaces (``CLONE_NEW*`` flags) of the process behind ``pidfd``."""
    _check("setns", _libc.setns(pidfd, flags))


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """``mount(2)``."""
    kind_bytes = None if kind is None else kind.encode()
    result = _libc.mount(source.encode(), target.encode(), kind_bytes, flags, options.encode())
    _check(f"mount {target}", result)


def pivot_root_here() -> None:
    """Make the current directory the root and detach the old root."""
    number = _SYS_PIVOT_ROOT[platform.machine()]
    _syscall("pivot_root", number, ctypes.c_char_p(b"."), ctypes.c_char_p(b"."))
    _check("umount", _libc.umount2(b".", _MNT_DETACH))
    os.chdir("/")


def current_cpu() -> int:
    """Number of the CPU that currently runs this process."""
    return _check("getcpu", _libc.sched_getcpu())


def cpu_clock(pid: int) -> int:
    """Clock id, for ``time.clock_gettime``, of the CPU time of a process."""
    # The kernel's MAKE_PROCESS_CPUCLOCK with CPUCLOCK_SCHED.
    return (~pid << 3) | 2


def die_with_parent() -> None:
    """SIGKILL this process when the *thread* that forked it ends. A change of user clears this."""
    _prctl("pdeathsig", _PR_SET_PDEATHSIG, 9)


def set_dumpable(*, allowed: bool) -> None:
    """Allow or forbid processes of the same user to read this one's memory and entries in /proc.

    A change of user forbids it, and with it writing to one's own ``uid_map``.
    """
    _prctl("dumpable", _PR_SET_DUMPABLE, int(allowed))


def drop_privileges() -> None:
    """Give up all capabilities and new privileges, and hide from processes of the same user."""
    _check("capset", _libc.capset(_CAPABILITY_HEADER, _NO_CAPABILITIES))
    _prctl("no_new_privs", _PR_SET_NO_NEW_PRIVS, 1)
    set_dumpable(allowed=False)


def install_filter(program: bytes) -> None:
    """Install a seccomp filter, an array of ``struct sock_filter``, irrevocably."""
    instructions = ctypes.create_string_buffer(program, len(program))
    fields = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    header = ctypes.create_string_buffer(fields)
    _prctl("seccomp", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(header))


def landlock_version() -> int:
    """Version of the Landlock ABI, at least 1; OSError if Landlock is absent."""
    return _syscall("landlock", _SYS_LANDLOCK_CREATE, None, 0, 1)


def restrict_by_landlock(refused: Sequence[int], allowed: Iterable[tuple[str, int]]) -> None:
    """Restrict this process and all its descendants.

    Args:
        refused: Rights to files, to TCP, and scopes; an older kernel knows only the first of these.
        allowed: Rights to files that remain, by path.
    """
    fields = struct.pack(f"={len(refused)}Q", *refused)
    create = ctypes.c_char_p(fields), len(fields), 0
    ruleset = _syscall("landlock", _SYS_LANDLOCK_CREATE, *create)
    for path, rights in allowed:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor), 12)
        kind = _LANDLOCK_RULE_PATH_BENEATH
        _syscall("landlock_add_rule", _SYS_LANDLOCK_ADD, ruleset, kind, rule, 0)
        os.close(descriptor)
    _syscall("landlock_restrict_self", _SYS_LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)
