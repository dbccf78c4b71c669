"""Length-prefixed frames over a socket, with a deadline, and nothing about their content."""

import socket
import struct
import time

MAX_FRAME_BYTES = 8 << 20
_HEADER = struct.Struct("!I")


class ChannelClosedError(Exception):
    """The other side is gone."""


class FrameTooLargeError(Exception):
    """A frame above MAX_FRAME_BYTES was sent or announced."""


class Channel:
    """One end of a socket pair.

    Args:
        end: The socket; the channel owns it.
        deadline: ``time.monotonic`` after which sending and receiving raise TimeoutError; None
            waits for ever.
    """

    def __init__(self, end: socket.socket, *, deadline: float | None = None) -> None:
        self._end = end
        self._deadline = deadline

    def send(self, frame: bytes) -> None:
        """Send one frame whole."""
        if len(frame) > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"{len(frame)} bytes")
        self._set_timeout()
        try:
            self._end.sendall(_HEADER.pack(len(frame)) + frame)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosedError from error

    def receive(self) -> bytes:
        """Receive one frame whole."""
        (length,) = _HEADER.unpack(self._receive_exactly(_HEADER.size))
        if length > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"{length} bytes")
        return self._receive_exactly(length)

    def _receive_exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            self._set_timeout()
            try:
                part = self._end.recv(min(count - len(parts), 1 << 16))
            except ConnectionResetError as error:
                raise ChannelClosedError from error
            if not part:
                raise ChannelClosedError
            parts += part
        return bytes(parts)

    def _set_timeout(self) -> None:
        if self._deadline is not None:
            # Never 0, which would mean "do not block".
            self._end.settimeout(max(self._deadline - time.monotonic(), 1e-6))
