"""Isolation of processes by namespaces, by Landlock, or in a container, and limits of one run.

``enter`` runs once, in the warm interpreter before it serves; ``fork_candidate`` and ``separate``
once per program; ``lock_down`` last, in the candidate and in the examiner, and cannot be undone.

The limit that decides is on CPU seconds of the candidate, because wall-clock time depends on the load
of the machine. The wall-clock limit only ends runs that wait or get no CPU; these are inconclusive.
"""

import _ctypes
import fcntl
import functools
import os
import pathlib
import platform
import resource
import select
import socket
import stat
import time
from collections.abc import Iterable, Sequence

from pipeline_lib.verify.sandbox.jail import kernel
from pipeline_lib.verify.sandbox.jail.kernel import assemble_filter

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

_LANDLOCK_READ_FILE, _LANDLOCK_READ_DIR = 0b100, 0b1000
_LANDLOCK_FILE_RIGHTS = (13, 14, 15, 15, 16)
"""Number of file rights known to each version of the Landlock ABI, from 1 on."""
_DESCRIPTORS = 32
"""All descriptors of a run are below this number."""
MESSAGE_BYTES = 4096
"""Of a message between client and interpreter."""
MAX_OUTPUT_BYTES = 1 << 20
WALL_FACTOR_IDLE = 2.5
"""Wall-clock limit as a multiple of the CPU limit, for a program that mostly waits."""
WALL_FACTOR_BUSY = 3.5
"""The same for a program that computes: six programs may share two cores."""
_LEAST_SHARE = 0.05
"""Share of a core above which a program counts as computing (20 programs on one core)."""
_CPU_CHECK_S = 0.02
"""Shortest interval between two readings of the CPU clock."""


class Jail:
    """For a process in a container of its own, which isolates files and network.

    ``packages`` are the folders of third-party packages that exist in the jail.
    """

    may_write_files = True
    """True if programs have a scratch folder."""

    def __init__(self, packages: Sequence[str]) -> None:
        parents = (_STANDARD_LIBRARY.parent, _EXTENSION_MODULES.parent)
        wanted = [*parents, *map(pathlib.Path, (*_LIBRARY_FOLDERS, *packages, _LIBRARY_CACHE))]
        found = sorted({path.resolve() for path in wanted if path.exists()})
        self._sources = [p for p in found if not any(other in p.parents for other in found)]
        """Folders and files that a Python program with these packages reads."""
        scratch = pathlib.Path(SCRATCH)
        self._in_scratch = [source for source in self._sources if scratch in source.parents]
        """Folders that the scratch folder would hide: the environment may be below it."""

    def enter(self) -> None:
        """Isolate the warm interpreter."""
        # The candidate runs under the same user, and a container has a /proc.
        kernel.set_dumpable(allowed=False)
        os.chdir(SCRATCH)

    def fork_candidate(self) -> int:
        """``os.fork`` into a process that cannot reach others: the filter refuses signals to them."""
        return os.fork()

    def separate(self) -> None:
        """Called in that process: give it private files, if other programs run in the jail."""


class NamespaceJail(Jail):
    """User, mount, PID, network, IPC and UTS namespaces, with a read-only root and no /proc."""

    def enter(self) -> None:  # type: ignore[explicit-override]
        """Return in a new process that is PID 1 of the jail; the calling process waits for it."""
        procfs = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        if os.geteuid() == 0:
            kernel.unshare(kernel.CLONE_NEWNS)
            self._build_root()
            _become_nobody()
        else:
            _unshare_as_self(procfs, kernel.CLONE_NEWNS)
            self._build_root()
        others = kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
        _unshare_as_self(procfs, kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | others)
        os.close(procfs)
        socket.sethostname("sandbox")
        if child := os.fork():
            os.closerange(3, 65536)
            os.waitpid(child, 0)
            os._exit(0)
        kernel.die_with_parent()

    def fork_candidate(self) -> int:  # type: ignore[explicit-override]
        """The child is PID 1 of a new PID namespace."""
        own_namespace = os.pidfd_open(os.getpid())
        kernel.unshare(kernel.CLONE_NEWPID)
        child = os.fork()
        if child:
            # The next child must not join the same namespace.
            kernel.enter_namespaces(own_namespace, kernel.CLONE_NEWPID)
            os.close(own_namespace)
        return child

    def separate(self) -> None:  # type: ignore[explicit-override]
        """A mount and an IPC namespace, and a scratch folder without files of other programs."""
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
        _mount_scratch(_SCRATCH_OPTIONS, self._in_scratch, root=pathlib.Path("/"))
        os.chdir(SCRATCH)

    def _build_root(self) -> None:
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        root = pathlib.Path(SCRATCH)
        _mount_scratch(_ROOT_OPTIONS, [*self._sources, *map(pathlib.Path, _DEVICES)], root=root)
        for folder in map(pathlib.Path, _LIBRARY_FOLDERS):
            # As /lib on systems with a merged /usr.
            if folder.is_symlink():
                (root / folder.relative_to("/")).symlink_to(folder.readlink())
        (root / SCRATCH.lstrip("/")).mkdir(exist_ok=True)
        os.chdir(root)
        kernel.pivot_root_here()
        _remount_read_only("/")


class LandlockJail(Jail):
    """Landlock and seccomp, for hosts that refuse namespaces. Nothing is writable."""

    may_write_files = False

    def enter(self) -> None:  # type: ignore[explicit-override]
        """Drop privileges, then access to all files but the interpreter's libraries."""
        folders = (_STANDARD_LIBRARY, *_STANDARD_LIBRARY.parents)
        if os.geteuid() == 0 and all(one.stat().st_mode & stat.S_IXOTH for one in folders):
            _become_nobody()
        os.chdir("/")
        # Candidates share the Landlock domain, so it does not protect this process from them.
        kernel.drop_privileges()
        version = kernel.landlock_version()
        file_rights = _LANDLOCK_FILE_RIGHTS[min(version, len(_LANDLOCK_FILE_RIGHTS)) - 1]
        refused = [(1 << file_rights) - 1, 0b11, 0b11][: 1 + (version >= 4) + (version >= 6)]
        allowed = [(device, _LANDLOCK_READ_FILE) for device in _DEVICES]
        for source in self._sources:
            in_folder = _LANDLOCK_READ_DIR if source.is_dir() else 0
            allowed.append((str(source), _LANDLOCK_READ_FILE | in_folder))
        kernel.restrict_by_landlock(refused, allowed)


JAILS = {"namespace": NamespaceJail, "landlock": LandlockJail, "container": Jail}


def lock_down(jail: Jail, descriptors: Sequence[int], memory_bytes: int, cpu_seconds: int) -> None:
    """Restrict this process, just forked, to standard streams and these descriptors, from 3 on.

    Resource limits are set, capabilities dropped, and the seccomp filter is installed.
    """
    os.setsid()
    kernel.die_with_parent()
    # Two steps, so that no target overwrites a source that is still needed.
    above = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _DESCRIPTORS) for one in descriptors]
    for target, descriptor in enumerate(above, start=3):
        os.dup2(descriptor, target, inheritable=False)
    os.closerange(3 + len(descriptors), 65536)
    for name, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_FSIZE, SCRATCH_BYTES),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(name, (value, value))
    kernel.drop_privileges()
    kernel.install_filter(process_filter(jail, own_pid=os.getpid()))


@functools.cache
def process_filter(jail: Jail, *, own_pid: int) -> bytes:
    """The seccomp filter of one process; assembled before the fork if its pid is known."""
    machine = platform.machine()
    return assemble_filter(machine, own_pid=own_pid, may_write_files=jail.may_write_files)


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


def _mount_scratch(options: str, sources: Iterable[pathlib.Path], *, root: pathlib.Path) -> None:
    """Mount an empty file system at SCRATCH, then show ``sources`` below ``root``, read-only."""
    # Opened before: they may be below SCRATCH.
    opened = [(source, os.open(source, os.O_PATH)) for source in sources]
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount("tmpfs", SCRATCH, "tmpfs", flags, options)
    for source, descriptor in opened:
        target = root / source.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shown = f"/proc/self/fd/{descriptor}"
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            target.mkdir()
            # The jail has no /proc.
            os.fchdir(descriptor)
            shown = "."
        else:
            target.touch()
        kernel.mount(shown, str(target), None, kernel.MS_BIND)
        _remount_read_only(str(target))
        os.close(descriptor)


def _remount_read_only(target: str) -> None:
    # Flags inherited with the mount may be locked and must be repeated. ST_* equals MS_* here.
    kept = os.statvfs(target).f_flag
    kept &= kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID
    kernel.mount("none", target, None, flags | kept)


def wall_seconds(cpu_seconds: float) -> float:
    """The wall-clock limit of a program with this CPU limit."""
    return cpu_seconds * WALL_FACTOR_BUSY


class Watch:
    """Watches the candidate ``pid`` from outside until it ends or a limit is reached.

    What it prints is moved from the pipe ``output`` to the file ``kept``; ``examiner`` is readable at
    the end of the run, ``client`` when the client is gone.
    """

    def __init__(
        self, pid: int, cpu_seconds: float, *, output: int, kept: int, examiner: int, client: int
    ) -> None:
        self._start = time.monotonic()
        self._clock = kernel.cpu_clock(pid)
        self._cpu_seconds = cpu_seconds
        self._output = output
        self._kept = kept
        self._examiner = examiner
        self._client = client
        self._poll = select.poll()
        for descriptor in (output, examiner, client):
            self._poll.register(descriptor, select.POLLIN)
        self._num_bytes = 0

    def end_within(self, seconds: float) -> str | None:
        """``exit``, ``output_limit`` or ``client_gone`` if the run ends by then, else None."""
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            ready = {descriptor for descriptor, _ in self._poll.poll(remaining * 1000)}
            if self._client in ready:
                return "client_gone"
            if self._examiner in ready:
                return "exit"
            if self._output in ready and not self._take():
                self._poll.unregister(self._output)
            if self._num_bytes > MAX_OUTPUT_BYTES:
                return "output_limit"
        return None

    def end(self) -> str:
        """How the run ended; ``cpu_limit`` or ``deadline`` if it must be killed."""
        end = None
        patience = self._start + self._cpu_seconds * WALL_FACTOR_IDLE
        deadline = self._start + wall_seconds(self._cpu_seconds)
        while end is None and (now := time.monotonic()) < deadline:
            used = self._used()
            if used >= self._cpu_seconds:
                return "cpu_limit"
            if now >= patience and used < _LEAST_SHARE * (now - self._start):
                break
            # A single thread uses at most one CPU second per second.
            until_limit = max(self._cpu_seconds - used, _CPU_CHECK_S)
            end = self.end_within(
                min(until_limit, (patience if now < patience else deadline) - now)
            )
        return end or "deadline"

    def printed_too_much(self) -> bool:
        """Take the rest of the output; all its writers are dead. True if it exceeds the limit."""
        while self._take():
            pass
        return self._num_bytes > MAX_OUTPUT_BYTES

    def _take(self) -> bool:
        # Spliced, not read: all later candidates inherit the memory of this process.
        moved = os.splice(self._output, self._kept, 1 << 16)
        self._num_bytes += moved
        return bool(moved)

    def _used(self) -> float:
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            # The process has ended; the examiner is about to report it.
            return 0.0
