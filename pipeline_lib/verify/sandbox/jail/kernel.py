"""Linux calls that Python does not wrap, and the seccomp filter of a jailed process.

Each call raises OSError with its name; `isolation` decides which are made. The filter is an allow list
of the system calls that pure Python needs. Calls that are not listed, future ones included, fail with
EPERM: no new process or thread, no exec, no socket, no signal to another process. It is assembled
here because libseccomp is not always installed.
"""

import ctypes
import functools
import itertools
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
    """Refuse rights to files, to TCP, and scopes to this process and all its descendants.

    An older kernel knows only the first of these; ``allowed`` are the rights to files that remain, by path.
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


AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name, number on x86_64, number on aarch64 ("-": the machine has no such call)
_ALLOWED = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, lseek 8 62,
close 3 57, close_range 436 436, dup 32 23, dup2 33 -, dup3 292 24,
stat 4 -, lstat 6 -, fstat 5 80, newfstatat 262 79, statx 332 291,
getdents 78 -, getdents64 217 61, getcwd 79 17, umask 95 166,
mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35,
rename 82 -, renameat 264 38, renameat2 316 276,
ftruncate 77 46, fsync 74 82, fdatasync 75 83, fadvise64 221 223,
mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216, madvise 28 233, brk 12 214,
rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
rt_sigtimedwait 128 137, sigaltstack 131 132, pause 34 -, restart_syscall 219 128,
select 23 -, pselect6 270 72, poll 7 -, ppoll 271 73, epoll_create1 291 20, epoll_ctl 233 21,
epoll_wait 232 -, epoll_pwait 281 22, eventfd2 290 19, pipe 22 -, pipe2 293 59,
recvfrom 45 207, recvmsg 47 212, sendto 44 206, sendmsg 46 211, shutdown 48 210,
getsockname 51 204, getpeername 52 205, getsockopt 55 209,
nanosleep 35 101, clock_nanosleep 230 115, clock_gettime 228 113, clock_getres 229 114,
gettimeofday 96 169, time 201 -, times 100 153, alarm 37 -, getitimer 36 102, setitimer 38 103,
getpid 39 172, getppid 110 173, gettid 186 178, getuid 102 174, geteuid 107 175, getgid 104 176,
getegid 108 177, getgroups 115 158, getresuid 118 148, getresgid 120 150, getpgrp 111 -,
getrlimit 97 163, getrusage 98 165, sysinfo 99 179, uname 63 160,
getrandom 318 278, getcpu 309 168, sched_yield 24 124,
futex 202 98, set_robust_list 273 99, rseq 334 293, wait4 61 260, waitid 247 95,
exit 60 93, exit_group 231 94
"""
# They inspect files by name without opening them, which Landlock does not restrict.
_LOOKS = """
statfs 137 43, fstatfs 138 44, access 21 -, faccessat 269 48, faccessat2 439 439,
readlink 89 -, readlinkat 267 78, chdir 80 49, fchdir 81 50
"""

# F_SETOWN with F_SETSIG sends any signal to any process of the user, and F_SETLEASE blocks others'
# opens. Left are F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL and F_DUPFD_CLOEXEC.
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)
# What file objects ask for: TCGETS (isatty), FIOCLEX, FIONCLEX, FIONBIO and FIONREAD.
_IOCTL_COMMANDS = (0x5401, 0x5451, 0x5450, 0x5421, 0x541B)
_AF_UNIX, _SOCK_STREAM, _SOCK_TYPE_MASK = 1, 1, 0xF
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_NOT_BELOW, _JUMP_SET = 0x15, 0x35, 0x45
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16

_Instruction = tuple[int, int, int, int]
"""Operation, jump if true, jump if false, operand: one ``struct sock_filter``."""
_KILL: _Instruction = (_RETURN, 0, 0, 0x80000000)
_ALLOW: _Instruction = (_RETURN, 0, 0, 0x7FFF0000)
_EPERM: _Instruction = (_RETURN, 0, 0, 0x00050001)
_ENOSYS: _Instruction = (_RETURN, 0, 0, 0x00050026)
_Body = list[_Instruction]
_OWN_PID = 0x7A5E1DE5  # above every pid there is


def assemble_filter(machine: str, *, own_pid: int, may_write_files: bool) -> bytes:
    """The BPF program for one process on ``x86_64`` or ``aarch64``, as an array of ``struct sock_filter``.

    Only ``own_pid`` may be signalled, the id as the process itself sees it. Without ``may_write_files``
    the visible files are the host's, and calls that only inspect them are refused as well.
    """
    template = _template(machine, may_write_files=may_write_files)
    return template.replace(_OWN_PID.to_bytes(4, "little"), own_pid.to_bytes(4, "little"))


@functools.cache
def _template(machine: str, *, may_write_files: bool) -> bytes:
    """The filter with a placeholder for the pid; assembled once, before any fork."""
    rules = [
        (_ALLOWED, [_ALLOW]),
        (_LOOKS, [_ALLOW] if may_write_files else [_EPERM]),
        ("open 2 -", [_ALLOW] if may_write_files else _if_reading(flags_at=1)),
        ("openat 257 56", [_ALLOW] if may_write_files else _if_reading(flags_at=2)),
        ("kill 62 129, tkill 200 130, tgkill 234 131", _if_argument_in(0, (_OWN_PID,))),
        (
            "getpgid 121 155, getsid 124 156, sched_getaffinity 204 123",
            _if_argument_in(0, (0, _OWN_PID)),
        ),
        ("prlimit64 302 261", _if_argument_in(0, (0,))),
        ("fcntl 72 25", _if_argument_in(1, _FCNTL_COMMANDS)),
        ("ioctl 16 29", _if_argument_in(1, _IOCTL_COMMANDS)),
        ("socketpair 53 199", _if_stream_pair()),
        ("clone3 435 435", [_ENOSYS]),
    ]
    bodies = {number: body for calls, body in rules for number in _numbers(calls, machine)}
    head = [(_LOAD, 0, 0, _ARCH_AT), (_JUMP_EQUAL, 1, 0, AUDIT_ARCH[machine]), _KILL]
    # Start of each range of call numbers with the same body; unlisted numbers are refused.
    by_body = itertools.groupby(range(max(bodies) + 2), lambda n: bodies.get(n, [_EPERM]))
    ranges = [(next(numbers), body) for body, numbers in by_body]
    code = [*head, (_LOAD, 0, 0, _NUMBER_AT), *_search(ranges)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _search(ranges: list[tuple[int, _Body]]) -> _Body:
    """A binary search: the kernel evaluates the filter for every number once per process."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    below, above = _search(ranges[:middle]), _search(ranges[middle:])
    assert len(below) < 256, "a jump is one byte"
    return [(_JUMP_NOT_BELOW, len(below), 0, ranges[middle][0]), *below, *above]


def _numbers(calls: str, machine: str) -> list[int]:
    column = 1 if machine == "x86_64" else 2
    numbers = [call.split()[column] for call in calls.split(",")]
    return [int(number) for number in numbers if number != "-"]


def _argument(index: int) -> _Instruction:
    # The low half, on little-endian machines; pids, commands, flags and types are ints in C.
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * index)


def _if_argument_in(index: int, allowed: tuple[int, ...]) -> _Body:
    tests = [(_JUMP_EQUAL, len(allowed) - i, 0, value) for i, value in enumerate(allowed)]
    return [_argument(index), *tests, _EPERM, _ALLOW]


def _if_stream_pair() -> _Body:
    # A datagram pair could still send to the address of an abstract socket.
    return [
        _argument(0),
        (_JUMP_EQUAL, 0, 3, _AF_UNIX),
        _argument(1),
        (_AND, 0, 0, _SOCK_TYPE_MASK),
        (_JUMP_EQUAL, 1, 0, _SOCK_STREAM),
        _EPERM,
        _ALLOW,
    ]


def _if_reading(flags_at: int) -> _Body:
    return [_argument(flags_at), (_JUMP_SET, 0, 1, _WRITING), _EPERM, _ALLOW]
