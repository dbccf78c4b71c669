"""Replay of the exchange with a candidate to tests that expect something else.

The negative control replays: the program is not run a second time, so it cannot know of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_lib.verify.sandbox.protocol.codec import NotPlainError, decode, encode


class DeviationError(BaseException):
    """Tests sent what the record does not have. Not an Exception: they must not catch it."""


class Replay:
    """A channel that answers from a record, with other frames in place of some, by position."""

    def __init__(self, frames: Sequence[bytes], altered: Mapping[int, bytes]) -> None:
        self._frames = frames
        self._altered = altered
        self._position = 0
        self.deviated = False
        """True if the tests sent something else."""
        self.is_over = False
        """True if the tests sent more than the record has, and nothing else before."""

    def send(self, frame: bytes) -> None:
        """Take the frame that was sent here before; another one raises DeviationError."""
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

    def __call__(self) -> None:
        """Stand for a function, as a defaultdict asks for."""


def _content(value: Any) -> Any:
    return value.content


def altered_reply(frame: bytes, change: Callable[[Any], Any]) -> bytes | None:
    """A reply with its values changed by ``change``; None if it has no plain value."""
    try:
        answer = _altered(decode(frame, _Reference), change)
        return None if answer is None else encode(answer, _content)
    except (NotPlainError, ArithmeticError, AttributeError, TypeError):
        return None


def _altered(answer: Any, change: Callable[[Any], Any]) -> tuple[Any, ...] | None:
    altered: tuple[Any, ...] | None = None
    match answer:
        case ("value", _Reference([int(), str(kind)])) if not kind.startswith("iterator"):
            pass  # An object has no other value.
        case ("value", value):
            altered = ("value", change(value))
        case ("raised", *_) if change(1):
            altered = ("raised", "RuntimeError", "RuntimeError", "~", ["~"], {})
        case ("argument" | "raised", *_):
            altered = ("value", "~")
        case ("mutated", _, [*args], {**kwargs}, reply):
            values = {name: change(value) for name, value in kwargs.items()}
            reply = _altered(reply, change) or reply
            altered = ("mutated", None, list(map(change, args)), values, reply)
        case ("ask", number, [*values], options):
            altered = ("ask", number, list(map(change, values)), options)
        case ("printed", str(text), reply):
            altered = ("printed", f"{text}~", _altered(reply, change) or reply)
        case _:
            pass
    return altered
