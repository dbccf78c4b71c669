"""Length-prefixed frames over a socket, with a deadline, and nothing about their content."""

import os
import socket
import struct
import time

MAX_FRAME_BYTES = 8 << 20
_HEADER = struct.Struct("!I")
_READ_BYTES = 1 << 16


class ChannelClosedError(Exception):
    """The other side is gone."""


class FrameTooLargeError(Exception):
    """A frame above MAX_FRAME_BYTES was sent or announced."""


class Channel:
    """One end of a pair of stream sockets.

    By its descriptor, since a socket object only adds to the pages that a forked process copies.

    Args:
        descriptor: The end; whoever opened it closes it.
        deadline: ``time.monotonic`` after which sending and receiving raise TimeoutError, if the
            end was given to :func:`limit_waiting`; None waits for ever.
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
    """Let no single read or write of ``end`` wait longer, whoever holds it by then."""
    whole = int(seconds)
    # Never 0, which would mean "for ever".
    interval = struct.pack("@ll", whole, max(int((seconds - whole) * 1e6), 1))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        end.setsockopt(socket.SOL_SOCKET, option, interval)
