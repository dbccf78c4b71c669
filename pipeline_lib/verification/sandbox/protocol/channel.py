"""Length-prefixed frames over a socket, with a deadline."""

import os
import socket
import struct
import time

MAX_FRAME_BYTES = 32 << 20
_HEADER = struct.Struct("!I")
_READ_BYTES = 1 << 16


class ChannelClosedError(Exception):
    """The other side closed the connection."""


class FrameTooLargeError(Exception):
    """A frame above MAX_FRAME_BYTES was sent or announced."""


class Channel:
    """One end of a pair of stream sockets.

    It uses the bare descriptor: a socket object would add to the pages that a forked process
    copies.

    Args:
        descriptor: The socket; closed by its owner, not by the channel.
        deadline: ``time.monotonic`` after which sending and receiving raise TimeoutError, provided
            that :func:`limit_waiting` was applied to the socket; None: no deadline.
    """

    def __init__(self, descriptor: int, *, deadline: float | None = None) -> None:
        self._descriptor = descriptor
        self._deadline = deadline
        self._received = bytearray()

    def send(self, frame: bytes) -> None:
        """Send one frame whole."""
        if len(frame) > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"{len(frame)} bytes")
        left = memoryview(_HEADER.pack(len(frame)) + frame)
        while left:
            self._check_deadline()
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError as error:
                raise TimeoutError from error
            except (BrokenPipeError, ConnectionResetError) as error:
                raise ChannelClosedError from error

    def receive(self) -> bytes:
        """Receive one frame whole."""
        (length,) = _HEADER.unpack(self._take(_HEADER.size))
        if length > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"{length} bytes")
        return self._take(length)

    def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            self._check_deadline()
            try:
                part = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError as error:
                raise TimeoutError from error
            except ConnectionResetError as error:
                raise ChannelClosedError from error
            if not part:
                raise ChannelClosedError
            self._received += part
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _check_deadline(self) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise TimeoutError


def limit_waiting(end: socket.socket, seconds: float) -> None:
    """Limit the blocking time of each read and write on ``end``, in every process that holds it."""
    whole = int(seconds)
    # 0 would mean no limit.
    interval = struct.pack("@ll", whole, max(int((seconds - whole) * 1e6), 1))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        end.setsockopt(socket.SOL_SOCKET, option, interval)
