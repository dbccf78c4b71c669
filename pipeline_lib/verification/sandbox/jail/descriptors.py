"""File descriptors of a freshly forked process."""

import fcntl
import os
import socket

_ABOVE = 32
"""All descriptors of a run are below this number."""


def keep_only(*descriptors: int) -> None:
    """Move these descriptors to 3, 4, 5 ... and close all others above 2."""
    # Two steps, so that no target overwrites a source that is still needed.
    above = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for descriptor in descriptors]
    for target, descriptor in enumerate(above, start=3):
        os.dup2(descriptor, target, inheritable=False)
    os.closerange(3 + len(descriptors), 65536)


def socket_at(descriptor: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    """The Unix socket behind a descriptor."""
    return socket.socket(socket.AF_UNIX, kind, 0, fileno=descriptor)


def read_all(descriptor: int) -> bytes:
    """The whole content of an open file, whatever its offset."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
