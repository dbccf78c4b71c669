"""Isolation of processes by namespaces, by Landlock, or in a container.

``enter`` runs once, in the warm interpreter before it serves; ``fork_candidate`` and ``separate``
once per program; ``lock_down`` last, in the candidate and in the examiner, and cannot be undone.
"""

import _ctypes
import functools
import os
import pathlib
import platform
import resource
import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline_lib.verification.sandbox.jail import kernel
from pipeline_lib.verification.sandbox.jail.syscall_filter import assemble_filter

NOBODY = 65534
SCRATCH = "/tmp"  # noqa: S108 - private to the jail's mount namespace
SCRATCH_BYTES = 16 << 20
_SCRATCH_OPTIONS = f"size={SCRATCH_BYTES},nr_inodes=1024,mode=1777"
_ROOT_OPTIONS = "size=1m,nr_inodes=512,mode=755"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_LIBRARY_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo")
_LIBRARY_CACHE = "/etc/ld.so.cache"

_STANDARD_LIBRARY = pathlib.Path(os.__file__).parent
_EXTENSION_MODULES = pathlib.Path(_ctypes.__file__).parent.parent
"""Outside the library on some systems (lib64)."""

_LANDLOCK_READ = 0b1100  # READ_FILE, READ_DIR
_LANDLOCK_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file rights known to each version of the Landlock ABI."""
_LANDLOCK_READ_FILE = 0b100


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """Limits of one jailed process."""

    memory_bytes: int
    cpu_seconds: int


class Jail(Protocol):
    """One means of isolation."""

    may_write_files: bool
    """True if programs have a scratch folder."""

    def enter(self) -> None:
        """Isolate the warm interpreter."""

    def fork_candidate(self) -> int:
        """``os.fork`` into a process that cannot reach others."""

    def separate(self) -> None:
        """Called in that process: give it private files."""


class NamespaceJail:
    """User, mount, PID, network, IPC and UTS namespaces, with a read-only root and no /proc.

    Args:
        packages: Folders of third-party packages that exist in the jail.
    """

    may_write_files = True

    def __init__(self, packages: Sequence[str] = ()) -> None:
        self._packages = packages
        self._in_scratch = [
            source
            for source in _library_sources(packages)
            if pathlib.Path(SCRATCH) in source.parents
        ]
        """Folders that the scratch folder would hide: the environment may be below it."""

    def enter(self) -> None:
        """Return in a new process that is PID 1 of the jail; the calling process waits for it."""
        procfs = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        if os.geteuid() == 0:
            kernel.unshare(kernel.CLONE_NEWNS)
            _build_root(self._packages)
            _become_nobody()
        else:
            _unshare_as_self(procfs, kernel.CLONE_NEWNS)
            _build_root(self._packages)
        others = kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
        _unshare_as_self(procfs, kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | others)
        os.close(procfs)
        socket.sethostname("sandbox")
        _continue_as_first_process()

    def fork_candidate(self) -> int:
        """The child is PID 1 of a new PID namespace."""
        own_namespace = os.pidfd_open(os.getpid())
        kernel.unshare(kernel.CLONE_NEWPID)
        child = os.fork()
        if child:
            # The next child must not join the same namespace.
            kernel.enter_namespaces(own_namespace, kernel.CLONE_NEWPID)
            os.close(own_namespace)
        return child

    def separate(self) -> None:
        """A mount and an IPC namespace, and a scratch folder without files of other programs."""
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        hidden = [(source, os.open(source, os.O_PATH)) for source in self._in_scratch]
        kernel.mount("tmpfs", SCRATCH, "tmpfs", flags, _SCRATCH_OPTIONS)
        for source, descriptor in hidden:
            _bind(descriptor, source)
        os.chdir(SCRATCH)


class LandlockJail:
    """Landlock and seccomp, for hosts that refuse namespaces. Nothing is writable.

    Args:
        packages: Folders of third-party packages that can be read.
    """

    may_write_files = False

    def __init__(self, packages: Sequence[str] = ()) -> None:
        self._packages = packages

    def enter(self) -> None:
        """Drop privileges, then access to all files but the interpreter's libraries."""
        if os.geteuid() == 0 and _readable_by_all(_STANDARD_LIBRARY):
            _become_nobody()
        os.chdir("/")
        kernel.drop_capabilities()
        kernel.forbid_new_privileges()
        version = kernel.landlock_version()
        known = _LANDLOCK_FILE_RIGHTS.get(version, max(_LANDLOCK_FILE_RIGHTS.values()))
        ruleset = kernel.landlock_ruleset(
            files=(1 << known) - 1,
            tcp=0b11 if version >= 4 else 0,
            scopes=0b11 if version >= 6 else 0,
        )
        for source in _library_sources(self._packages):
            rights = _LANDLOCK_READ if source.is_dir() else _LANDLOCK_READ_FILE
            kernel.landlock_allow(ruleset, str(source), rights)
        for device in _DEVICES:
            kernel.landlock_allow(ruleset, device, _LANDLOCK_READ_FILE)
        kernel.landlock_restrict(ruleset)
        os.close(ruleset)
        # Candidates share the Landlock domain, so it does not protect this process from them.
        kernel.set_dumpable(allowed=False)

    def fork_candidate(self) -> int:
        """Other pids stay visible; the seccomp filter refuses signals to them."""
        return os.fork()

    def separate(self) -> None:
        """Do nothing: no folder is writable."""


class ContainerJail:
    """For a process in a container of its own, which isolates files and network."""

    may_write_files = True

    def enter(self) -> None:
        """Change to the temporary folder, the only writable one."""
        os.chdir(SCRATCH)

    def fork_candidate(self) -> int:
        """A plain fork: ``lock_down`` protects the memory of the other processes."""
        return os.fork()

    def separate(self) -> None:
        """Do nothing: one container runs one program."""


def lock_down(jail: Jail, limits: ProcessLimits) -> None:
    """Set resource limits, drop capabilities, install the seccomp filter."""
    for name, value in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_FSIZE, SCRATCH_BYTES),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(name, (value, value))
    kernel.drop_capabilities()
    kernel.set_dumpable(allowed=False)
    kernel.forbid_new_privileges()
    prepare_filter(os.getpid(), may_write_files=jail.may_write_files).install()


@functools.cache
def prepare_filter(own_pid: int, *, may_write_files: bool) -> kernel.PreparedFilter:
    """The seccomp filter of one process; prepared before the fork if its pid is known."""
    program = assemble_filter(platform.machine(), own_pid=own_pid, may_write_files=may_write_files)
    return kernel.PreparedFilter(program)


def _become_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    kernel.set_dumpable(allowed=True)


def _unshare_as_self(procfs: int, flags: int) -> None:
    """Enter a user namespace that maps only this user, to the same id."""
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWUSER | flags)
    for name, content in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        descriptor = os.open(f"self/{name}", os.O_WRONLY, dir_fd=procfs)
        os.write(descriptor, content.encode())
        os.close(descriptor)


def _continue_as_first_process() -> None:
    child = os.fork()
    if child:
        os.closerange(3, 65536)
        os.waitpid(child, 0)
        os._exit(0)
    kernel.die_with_parent()


def _build_root(packages: Sequence[str]) -> None:
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    sources = [*_library_sources(packages), *map(pathlib.Path, _DEVICES)]
    # Opened before SCRATCH is mounted over: the interpreter may be installed there.
    opened = [(source, os.open(source, os.O_PATH)) for source in sources]
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", SCRATCH, "tmpfs", flags, _ROOT_OPTIONS)
    root = pathlib.Path(SCRATCH)
    for source, descriptor in opened:
        _bind(descriptor, root / source.relative_to("/"))
    for folder in _LIBRARY_FOLDERS:
        _copy_link(pathlib.Path(folder), root)
    (root / SCRATCH.lstrip("/")).mkdir(exist_ok=True)
    os.chdir(root)
    kernel.pivot_root_here()
    _remount_read_only("/")


def _bind(descriptor: int, target: pathlib.Path) -> None:
    """Show what is open at an absolute path too, read-only; closes the descriptor."""
    target.parent.mkdir(parents=True, exist_ok=True)
    source = f"/proc/self/fd/{descriptor}"
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        target.mkdir()
        # The jail has no /proc.
        os.fchdir(descriptor)
        source = "."
    else:
        target.touch()
    kernel.mount(source, str(target), None, kernel.MS_BIND)
    _remount_read_only(str(target))
    os.close(descriptor)


def _remount_read_only(target: str) -> None:
    # Flags inherited with the mount may be locked and must be repeated. ST_* equals MS_* here.
    kept = os.statvfs(target).f_flag
    kept &= kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID
    kernel.mount("none", target, None, flags | kept)


def _copy_link(folder: pathlib.Path, root: pathlib.Path) -> None:
    """Copy a symbolic link, as /lib is on systems with a merged /usr."""
    if folder.is_symlink():
        (root / folder.relative_to("/")).symlink_to(folder.readlink())


def _library_sources(packages: Sequence[str]) -> list[pathlib.Path]:
    """Folders and files that a Python program with these packages reads."""
    parents = (_STANDARD_LIBRARY.parent, _EXTENSION_MODULES.parent)
    wanted = [*parents, *map(pathlib.Path, (*_LIBRARY_FOLDERS, *packages, _LIBRARY_CACHE))]
    found = sorted({path.resolve() for path in wanted if path.exists()})
    return [p for p in found if not any(other in p.parents for other in found)]


def _readable_by_all(path: pathlib.Path) -> bool:
    folders = (path, *path.parents)
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in folders)
