"""Spawn blocks that name numbered parts of the question; the runtime gives each child the text of its part.

A parent that copies the text of a part draws it twice, once for the block and once more where names are copied
wrong; a number is two tokens.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline_lib.systems.apr.threads import Child, Spawn
from pipeline_lib.systems.apr.words.texts import (
    ANSWER,
    END_JOIN,
    END_SPAWN,
    JOIN,
    SPAWN,
    last_message,
)

_PART = re.compile(r"^\((\d+)\) (.+)$", re.MULTILINE)
_NAMED = re.compile(r"(\d+)(?:: (.+))?")
ChildText = Literal["sentence", "expression", "question"]
NO_RESULT = "none"


def parts_of(question: str) -> dict[str, str]:
    """The texts of the lines of a question that begin with a number in parentheses, by number."""
    return dict(_PART.findall(question))


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerGrammar:
    """Implements ThreadGrammar: ``2`` names part 2 of the question, ``2: 4*6+9`` gives a child a text of its own."""

    whole_question: bool = False
    """A child's message is the question and the number of its part, not the part alone."""
    child_examples: str = ""
    """Turns before a child's message."""

    @property
    def forbidden(self) -> Mapping[str, str]:
        """A join is written by the runtime alone."""
        return {JOIN: SPAWN}

    @property
    def terminators(self) -> Collection[str]:
        """Nothing is drawn behind a spawn block before its children have ended."""
        return (END_SPAWN,)

    def find_spawn(self, text: str) -> Spawn | None:
        """The spawn block that ends the answer; a line that names no part of the question has no prompt."""
        question, _, answer = text.partition(ANSWER)
        question = last_message(question)
        _, opened, block = answer.rstrip().rpartition(SPAWN)
        named = block.removesuffix(END_SPAWN).split()
        if not opened or not block.endswith(END_SPAWN) or not named:
            return None
        lines = block.removesuffix(END_SPAWN).strip("\n").split("\n")
        parts = parts_of(question)
        children = [Child(name=line, prompt=self._prompt(question, parts, line)) for line in lines]
        return Spawn(before=text, children=children)

    def _prompt(self, question: str, parts: Mapping[str, str], line: str) -> str | None:
        found = _NAMED.fullmatch(line)
        if found is None or found[1] not in parts:
            return None
        part = found[2] or parts[found[1]]
        message = f"{question}\nPart ({found[1]})" if self.whole_question else part
        return f"{self.child_examples}{message}{ANSWER}"

    def read_result(self, output: str) -> str | None:
        """What follows the last equals sign of a child's last line; the line, if it has none."""
        line = output.rstrip().rpartition("\n")[2]
        return line.rpartition("=")[2].strip() or None

    def join(self, spawn: Spawn, results: Sequence[str | None]) -> str:
        """The parent's text with the block, and the results behind it."""
        return spawn.before + join_block(results)


def join_block(results: Sequence[str | None]) -> str:
    """A line per child, in the order of the block."""
    shown = "".join(f"{NO_RESULT if one is None else one}\n" for one in results)
    return f"\n{JOIN}\n{shown}{END_JOIN}\n"
