"""The side of the processes: a forker that has imported what all need, and the workers that it forks.

Started by exec, so it inherits no threads, locks or signal handlers. It forks a worker for every socket that the client
sends. Workers die with this process, which ends when the client's end of the control socket closes, however the
client died. Standard library only.
"""

import ctypes
import os
import resource
import signal
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

MAX_CONTROL_BYTES = 1 << 16
READY = b"ready"
HEADER = struct.Struct("=I")
"""Before each message of a worker: its length in bytes."""
_PR_SET_PDEATHSIG = 1


def serve(
    control: socket.socket, answer: Callable[[bytes], bytes], *, memory_bytes: Callable[[], int]
) -> None:
    """Fork workers that reply to messages with ``answer``, until the client is gone.

    ``memory_bytes`` is called in each worker: the limit of its address space.
    """
    control.send(READY)
    own_pid = os.getpid()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, MAX_CONTROL_BYTES, 1)
        if not data:
            return
        if not descriptors:
            _kill(int(data))
        elif child := os.fork():
            os.close(descriptors[0])
            control.send(str(child).encode())
        else:
            control.close()
            _work(socket.socket(fileno=descriptors[0]), answer, own_pid, memory_bytes())


def _kill(pid: int) -> None:
    """End a worker, and what it has started itself."""
    # Not reaped yet, so the pid cannot have been reused.
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _work(
    messages: socket.socket, answer: Callable[[bytes], bytes], parent_pid: int, memory_bytes: int
) -> NoReturn:
    """Answer until the client or the forker is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ConnectionResetError):
        while True:
            reply = answer(_read(messages, HEADER.unpack(_read(messages, HEADER.size))[0]))
            messages.sendall(HEADER.pack(len(reply)) + reply)
    os._exit(0)


def _read(messages: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = messages.recv(min(size - len(data), MAX_CONTROL_BYTES))
        if not part:
            raise ConnectionResetError
        data += part
    return bytes(data)
