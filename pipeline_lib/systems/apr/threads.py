"""The interface between runtime and texts: a grammar finds spawned children and their results, and joins them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A thread that a spawn block asks for."""

    name: str
    """As the block names it."""
    prompt: str | None
    """None: the block names what the parent's text does not define. It is a counted error, and has no sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """The last spawn block of a parent's text."""

    before: str
    """The parent's text, prompt included, up to the block."""
    children: Sequence[Child]


class ThreadGrammar(Protocol):
    """Texts of parents and children; all methods are pure functions of their arguments."""

    @property
    def forbidden(self) -> Mapping[str, str]:
        """Texts that the runtime alone may write, with what it puts in the place of a drawn one."""

    @property
    def terminators(self) -> Collection[str]:
        """Texts that end a draw, and are its last characters."""

    def find_spawn(self, text: str) -> Spawn | None:
        """The spawn block that ends a parent's text, prompt included; None if it ends without one."""

    def read_result(self, output: str) -> str | None:
        """The result of a child's output; None if it found none."""

    def join(self, spawn: Spawn, results: Sequence[str | None]) -> str:
        """The parent's text, prompt included, with which it goes on; results in the order of the children."""
