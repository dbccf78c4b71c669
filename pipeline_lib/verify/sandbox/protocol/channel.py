"""Length-prefixed frames over a socket."""

import os
import struct

MAX_FRAME_BYTES = 32 << 20
_HEADER = struct.Struct("!I")
_READ_BYTES = 1 << 16


class ChannelClosedError(Exception):
    """The other side closed the connection."""


class FrameTooLargeError(Exception):
    """A frame above MAX_FRAME_BYTES was sent or announced."""


class Channel:
    """One end of a pair of stream sockets.

    It uses the bare descriptor, which its owner closes: a socket object would add to the pages that
    a forked process copies.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._received = bytearray()

    def send(self, frame: bytes) -> None:
        """Send one frame whole."""
        if len(frame) > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"{len(frame)} bytes")
        left = memoryview(_HEADER.pack(len(frame)) + frame)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
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
            try:
                part = os.read(self._descriptor, _READ_BYTES)
            except ConnectionResetError as error:
                raise ChannelClosedError from error
            if not part:
                raise ChannelClosedError
            self._received += part
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken
