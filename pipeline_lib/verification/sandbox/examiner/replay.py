"""Record of the exchange with a candidate, and its replay to tests that expect something else.

The negative control replays: the program is not run a second time, so it cannot know of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline_lib.verification.sandbox.protocol.codec import NotPlainError, decode, encode

_MAX_BYTES = 128 << 20


class Transport(Protocol):
    """A connection to the candidate."""

    def send(self, frame: bytes) -> None:
        """Send one request."""

    def receive(self) -> bytes:
        """Receive the reply."""


class DeviationError(BaseException):
    """Tests sent what the record does not have. Not an Exception: they must not catch it."""


class Recorder:
    """A channel that keeps its frames.

    Args:
        channel: Connection to the candidate.
    """

    def __init__(self, channel: Transport) -> None:
        self._channel = channel
        self._num_bytes = 0
        self.frames: list[bytes] = []
        self.received: list[int] = []
        """Positions of the candidate's frames."""

    @property
    def is_whole(self) -> bool:
        """False if there was too much to keep."""
        return self._num_bytes <= _MAX_BYTES

    def send(self, frame: bytes) -> None:
        """Send one frame."""
        self._channel.send(frame)
        self._keep(frame)

    def receive(self) -> bytes:
        """Receive one frame."""
        frame = self._channel.receive()
        self.received.append(len(self.frames))
        self._keep(frame)
        return frame

    def _keep(self, frame: bytes) -> None:
        self._num_bytes += len(frame)
        if self.is_whole:
            self.frames.append(frame)


class Replay:
    """A channel that answers from a record.

    Args:
        frames: The record.
        altered: Frames in place of recorded ones, by position.
    """

    def __init__(self, frames: Sequence[bytes], altered: Mapping[int, bytes]) -> None:
        self._frames = frames
        self._altered = altered
        self._position = 0
        self.deviated = False
        """True if the tests sent something else."""
        self.is_over = False
        """True if the tests sent more than the record has, and nothing else before."""

    def send(self, frame: bytes) -> None:
        """Take the frame that was sent here before.

        Raises:
            DeviationError: it is another one.
        """
        self.deviated = self.deviated or self.receive() != frame
        if self.deviated:
            raise DeviationError

    def receive(self) -> bytes:
        """The next frame of the record, or what stands in its place."""
        position = self._position
        if position >= len(self._frames):
            self.is_over = not self.deviated
            self.deviated = True
            raise DeviationError
        self._position += 1
        return self._altered.get(position, self._frames[position])


@dataclass(frozen=True, slots=True)
class _Reference:
    content: Any

    @property
    def has_values(self) -> bool:
        """True for a record or an iterator; another object has no other value."""
        first, second, *_ = self.content
        return first in {"record", "member"} or str(second).startswith("iterator")

    def __call__(self) -> None:
        """Stand for a function, as a defaultdict asks for."""


def _content(value: Any) -> Any:
    return value.content


def altered_reply(frame: bytes, change: Any) -> bytes | None:
    """A reply with its value changed by ``change``; None if it has no plain value."""
    try:
        answer = _altered(decode(frame, _Reference), change)
        return None if answer is None else encode(answer, _content)
    except (NotPlainError, AttributeError, TypeError):
        return None


def _altered(answer: Any, change: Any) -> tuple[Any, ...] | None:
    match answer:
        case ("value", value):
            is_object = isinstance(value, _Reference) and not value.has_values
            return None if is_object else ("value", change(value))
        case ("argument" | "raised" as what, *_):
            other: tuple[Any, ...] = ("raised", "RuntimeError", "RuntimeError", "~", ["~"], {})
            return other if what == "raised" and change(1) else ("value", "~")
        case ("mutated", _, [*args], {**kwargs}, reply):
            values = {name: change(value) for name, value in kwargs.items()}
            return (
                "mutated",
                None,
                list(map(change, args)),
                values,
                _altered(reply, change) or reply,
            )
        case ("ask", number, [*values], options):
            return ("ask", number, list(map(change, values)), options)
        case ("printed", str(text), inner):
            return ("printed", f"{text}~", _altered(inner, change) or inner)
        case _:
            return None
