"""File systems of a few MiB that tests fill and break; such tests are skipped where none can be mounted."""

import fcntl
import os
import pathlib
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_FLUSH = 2
_BLOCK = 4096


@dataclass(frozen=True)
class SmallDisk:
    """A mounted file system and the operations of a test on it."""

    root: pathlib.Path
    image: pathlib.Path | None = None
    """The file that holds it, for ext4."""

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def fill(self, *, leave_kib: int = 0) -> None:
        """Leave ``leave_kib`` KiB of room."""
        with (self.root / "ballast").open("ab", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(_BLOCK))
            except OSError:
                os.ftruncate(
                    ballast.fileno(), os.fstat(ballast.fileno()).st_size - leave_kib * 1024
                )

    def empty(self) -> None:
        """Make room again."""
        (self.root / "ballast").unlink()

    def remount(self, mode: str) -> None:
        """Mount it ``ro`` or ``rw``; needs that no file is open for writing."""
        subprocess.run(["mount", "-o", f"remount,{mode}", self.root], check=True)

    def fail(self) -> None:
        """Of ext4: each access to a file gives an I/O error from here on."""
        folder = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NO_FLUSH))
        finally:
            os.close(folder)

    def turn_read_only(self) -> None:
        """Of ext4 mounted with errors=remount-ro: report an error, so that the kernel makes it read-only."""
        device = pathlib.Path(self._device()).name
        pathlib.Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("test")

    def _device(self) -> str:
        command = ["losetup", "--noheadings", "--output", "NAME", "--associated", str(self.image)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def repair(self) -> None:
        """Of ext4: unmount it if it is mounted, check it, mount it again without errors."""
        assert self.image is not None
        subprocess.run(["umount", "--lazy", self.root], capture_output=True, check=False)
        deadline = time.monotonic() + 30
        while self._device() and time.monotonic() < deadline:  # the last process has to let go
            time.sleep(0.1)
        subprocess.run(["e2fsck", "-fy", self.image], capture_output=True, check=False)
        subprocess.run(["mount", "-o", "loop", self.image, self.root], check=True)

    def vanish(self) -> None:
        """Unmount it while files are open."""
        subprocess.run(["umount", "--lazy", self.root], check=True)


@contextmanager
def small_disk(root: pathlib.Path, *, mib: float) -> Iterator[SmallDisk]:
    """A tmpfs of ``mib`` MiB at ``root``, unmounted at the end."""
    with _mounted(root, "-t", "tmpfs", "-o", f"size={int(mib * 1024)}k", "tmpfs") as disk:
        yield disk


@contextmanager
def ext4_disk(root: pathlib.Path, *, mib: int, options: str = "loop") -> Iterator[SmallDisk]:
    """An ext4 file system of ``mib`` MiB in a file beside ``root``; a broken one is repaired at the end."""
    image = root.with_suffix(".img")
    with image.open("wb") as stream:
        stream.truncate(mib << 20)
    made = subprocess.run(["mkfs.ext4", "-q", "-F", image], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mkfs.ext4 does not work here")
    with _mounted(root, "-o", options, str(image)) as disk:
        yield replace(disk, image=image)


@contextmanager
def _mounted(root: pathlib.Path, *arguments: str) -> Iterator[SmallDisk]:
    root.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", *arguments, root], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", "--lazy", root], capture_output=True, check=False)
