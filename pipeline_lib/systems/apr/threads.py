"""The interface between runtime and texts, and what a rollout gives.

A grammar finds spawned children and their results, and joins them. A rollout has drawn sequences, ends of its threads,
counted events and token counts.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

from pipeline_lib.engines.tokens import decode_completion, encode_completion, encode_prompt
from pipeline_lib.sampling.compute_cost import Cost


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTokens:
    """The tokens of the served model."""

    encode: Callable[[str], list[int]]
    """Of a prompt."""
    count: Callable[[str], int] | None = None
    """Tokens of a text that follows a prompt; None: not known."""
    decode: Callable[[Sequence[int]], str] | None = None
    """None: the ids of a cut text are not known."""

    @classmethod
    def of(cls, tokenizer: Any) -> "TextTokens":
        """The tokens of a Hugging Face tokenizer."""
        return cls(
            encode=partial(encode_prompt, tokenizer),
            count=lambda text: len(encode_completion(tokenizer, text)),
            decode=partial(decode_completion, tokenizer),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one rollout."""

    depth: int = 1
    """Generations of children; 1: children spawn none."""
    children: int = 64
    """Children of one spawn block."""
    draws: int = 64
    """Draws of one thread."""
    tokens: int | None = None
    """Drawn tokens of all threads together; None: unlimited."""


DEFAULT_LIMITS = Limits()


class Role(StrEnum):
    """Thread that a sequence belongs to."""

    PARENT = "parent"
    CHILD = "child"


class End(StrEnum):
    """The end of a thread."""

    FINISHED = "finished"
    CUT = "cut"
    """The window or a limit of tokens ended its text."""
    JOIN_OVERFLOW = "join_overflow"
    """The window has no room behind a join."""
    DRAW_LIMIT = "draw_limit"
    """It spawned or forged too often."""
    FORGED = "forged"
    """It began a join where it may not spawn."""
    FAILED = "failed"
    """A draw failed."""


class Event(StrEnum):
    """Counts of a rollout besides tokens."""

    CHILDREN = "children"
    """Children that a spawn block named, whatever became of them."""
    FAILED_CHILDREN = "failed_children"
    UNKNOWN_CHILDREN = "unknown_children"
    """Named by a spawn block, but not defined by the parent's text."""
    EXCESS_CHILDREN = "excess_children"
    """Beyond the limit of a spawn block."""
    CANCELLED_CHILDREN = "cancelled_children"
    """After the success of a sibling. The tokens of an open draw are not known: at least the sibling's tokens
    are counted, an upper bound where children are drawn at the same speed."""
    CUT_CHILDREN = "cut_children"
    """Ended by the window or another limit."""
    FORGED_JOINS = "forged_joins"
    JOIN_OVERFLOWS = "join_overflows"
    WASTED_TOKENS = "wasted_tokens"
    """Drawn behind the place at which a text was cut."""
    DROPPED_TOKENS = "dropped_tokens"
    """Drawn by threads whose sequences are dropped, as they failed or were cancelled; without wasted tokens."""
    LOST_IDS = "lost_ids"
    """Sequences without token ids, since the text was cut within a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSequence:
    """One draw of one thread."""

    prefix: str
    """The context, without the token that precedes each prompt. Forced text is part of it."""
    output: str
    role: Role
    round: int
    """Joins before it: of its thread, and of the threads above when they spawned it."""
    child: int | None
    """Place in the spawn block, from 0; None for the parent."""
    output_ids: tuple[int, ...] | None
    """Of ``output`` and the end token, if one was drawn; None if unknown."""
    logprobs: tuple[float, ...] | None
    """One per id; None if unknown."""

    def row(self) -> dict[str, Any]:
        """Flat form; unknown ids and log-probabilities are left out."""
        return {
            "prefix": self.prefix,
            "output": self.output,
            "role": self.role.value,
            "round": self.round,
            "child": self.child,
            **({} if self.output_ids is None else {"output_ids": list(self.output_ids)}),
            **({} if self.logprobs is None else {"logprobs": list(self.logprobs)}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A parent's prompt, and the names that its seeds are derived from."""

    problem_id: str
    sample: int
    """Number among the rollouts of the problem."""
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A parent with all its children."""

    root: Root
    sequences: Sequence[DrawnSequence]
    """In order: a parent's, then the sequences of the children that it spawns; empty if the parent failed."""
    end: End
    error: str | None
    """Of a failed parent."""
    child_error: str | None
    """Of the first failed child, which has no solution for its parent."""
    cost: Cost
    """Of all draws; a parent's segments one after another, the children of a round beside each other."""
    total_tokens: int
    """Tokens of all sequences with prompts, joins and end tokens; what a segment shares with the one before
    it counts once where a tokenizer is known."""
    longest_tokens: int
    """Of the longest sequence with its prompt."""
    events: Counter[Event]

    @property
    def last(self) -> DrawnSequence:
        """The parent's last sequence. The parent must not have failed."""
        return next(one for one in reversed(self.sequences) if one.role is Role.PARENT)
