"""The few Linux calls that Python does not wrap, each raising OSError with the call's name.

Used by processes that are about to lock themselves in; nothing here decides what is allowed.
"""

import ctypes
import os
import platform
import struct

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
# Declared once: converted arguments cost a forked process fewer pages than objects of ctypes.
_libc.prctl.argtypes = (ctypes.c_int, *(4 * (ctypes.c_ulong,)))
_libc.capset.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
_libc.unshare.argtypes = (ctypes.c_int,)
_libc.setns.argtypes = (ctypes.c_int, ctypes.c_int)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_libc.mount.argtypes = (*(3 * (ctypes.c_char_p,)), ctypes.c_ulong, ctypes.c_char_p)
_CAPABILITY_HEADER = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
_NO_CAPABILITIES = bytes(24)


def _checked(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(what: str, number: int, *arguments: object) -> int:
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _checked(what, _libc.syscall(ctypes.c_long(number), *wide))


def _prctl(what: str, option: int, second: int, third: int = 0) -> None:
    _checked(what, _libc.prctl(option, second, third, 0, 0))


def unshare(flags: int) -> None:
    """Leave the namespaces named by the ``CLONE_NEW*`` flags."""
    _checked("unshare", _libc.unshare(flags))


def enter_namespaces(pidfd: int, flags: int) -> None:
    """Join the namespaces, named by the ``CLONE_NEW*`` flags, of the process behind ``pidfd``."""
    _checked("setns", _libc.setns(pidfd, flags))


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """``mount(2)``."""
    kind_bytes = None if kind is None else kind.encode()
    result = _libc.mount(source.encode(), target.encode(), kind_bytes, flags, options.encode())
    _checked(f"mount {target}", result)


def pivot_root_here() -> None:
    """Make the current directory the root, and let go of the old one for good."""
    number = _SYS_PIVOT_ROOT[platform.machine()]
    _syscall("pivot_root", number, ctypes.c_char_p(b"."), ctypes.c_char_p(b"."))
    _checked("umount", _libc.umount2(b".", _MNT_DETACH))
    os.chdir("/")


def current_cpu() -> int:
    """The number of the CPU that runs this process at the moment."""
    return _checked("getcpu", _libc.sched_getcpu())


def cpu_clock(pid: int) -> int:
    """The clock, for ``time.clock_gettime``, of the CPU seconds that a process has used."""
    # As MAKE_PROCESS_CPUCLOCK of the kernel, with CPUCLOCK_SCHED; libc makes it only for a glibc call.
    return (~pid << 3) | 2


def die_with_parent() -> None:
    """SIGKILL for this process when the *thread* that made it ends. A change of user clears it."""
    _prctl("pdeathsig", _PR_SET_PDEATHSIG, 9)


def set_dumpable(*, allowed: bool) -> None:
    """Whether processes of the same user may read this one's memory and entries in /proc.

    A change of user takes it away, and with it the right to write one's own ``uid_map``.
    """
    _prctl("dumpable", _PR_SET_DUMPABLE, int(allowed))


def forbid_new_privileges() -> None:
    """No exec may ever gain rights; both seccomp and Landlock ask for it."""
    _prctl("no_new_privs", _PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Empty the effective, permitted and inheritable sets."""
    _checked("capset", _libc.capset(_CAPABILITY_HEADER, _NO_CAPABILITIES))


class PreparedFilter:
    """A seccomp filter where the kernel can read it.

    Args:
        program: An array of ``struct sock_filter``.
    """

    def __init__(self, program: bytes) -> None:
        self._instructions = ctypes.create_string_buffer(program, len(program))
        address = ctypes.addressof(self._instructions)
        self._header = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, address))
        self._address = ctypes.addressof(self._header)

    def install(self) -> None:
        """Install it for this process, irrevocably."""
        _prctl("seccomp", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, self._address)


def landlock_version() -> int:
    """The version of Landlock's interface, at least 1; OSError where there is none."""
    return _syscall("landlock", _SYS_LANDLOCK_CREATE, None, 0, 1)


def landlock_ruleset(*, files: int, tcp: int, scopes: int) -> int:
    """A descriptor of a new ruleset that handles (hence refuses) these rights.

    Zero fields at the end are cut off, so an older kernel, which knows fewer, accepts the rest.
    """
    fields = struct.pack("=QQQ", files, tcp, scopes)
    size = 24 if scopes else 16 if tcp else 8
    return _syscall("landlock", _SYS_LANDLOCK_CREATE, ctypes.c_char_p(fields), size, 0)


def landlock_allow(ruleset: int, path: str, rights: int) -> None:
    """Grant ``rights`` beneath ``path``."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor), 12)
        kind = _LANDLOCK_RULE_PATH_BENEATH
        _syscall("landlock_add_rule", _SYS_LANDLOCK_ADD, ruleset, kind, rule, 0)
    finally:
        os.close(descriptor)


def landlock_restrict(ruleset: int) -> None:
    """Enforce the ruleset on this process and all its descendants."""
    _syscall("landlock_restrict_self", _SYS_LANDLOCK_RESTRICT, ruleset, 0)
