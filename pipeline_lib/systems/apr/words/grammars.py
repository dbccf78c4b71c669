"""Grammars of language models' threads: spawn blocks that name parts of the question, and blocks in any words.

A block names numbered parts, and the runtime gives each child the text of its part: a parent that copies the text draws
it once more, and copies names wrong. A model that was not trained is told to put the words of each task into its block.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from pipeline_lib.errors import errors_at
from pipeline_lib.systems.apr.threads import Child, Spawn
from pipeline_lib.systems.apr.words.texts import (
    ANSWER,
    END_JOIN,
    END_SPAWN,
    JOIN,
    SPAWN,
    last_message,
)


class _SpawnTags:
    """Tags that both grammars share."""

    __slots__ = ()

    @property
    def forbidden(self) -> Mapping[str, str]:
        """A join is written by the runtime alone."""
        return {JOIN: SPAWN}

    @property
    def terminators(self) -> Collection[str]:
        """Nothing is drawn behind a spawn block before its children have ended."""
        return (END_SPAWN,)


_NAMED = re.compile(r"(\w+)(?:: (.+))?")
ChildText = Literal["sentence", "expression", "question"]
NO_RESULT = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerGrammar(_SpawnTags):
    """Implements ThreadGrammar: ``2`` names part 2 of the question, ``2: 4*6+9`` gives a child a text of its own."""

    whole_question: bool = False
    """A child's message is the question and the number of its part, not the part alone."""
    child_examples: str = ""
    """Turns before a child's message."""
    part: str = r"(?m)^\((\d+)\) (.+)$"
    """Pattern of a part of the question, with its name and its text."""
    between: str = "\n"
    """Separates the names of a block."""
    result: str | None = None
    """Pattern whose group is the result in a child's output; None: the text behind the last equals sign of its last line."""

    def parts(self, question: str) -> dict[str, str]:
        """The texts of the parts of a question, by name."""
        return dict(re.findall(self.part, question))

    def block(self, names: Iterable[str]) -> str:
        """The spawn block of the parts ``names``."""
        return self.between.join([SPAWN, *names, END_SPAWN])

    def find_spawn(self, text: str) -> Spawn | None:
        """The spawn block that ends the answer; a line that names no part of the question has no prompt."""
        question, _, answer = text.partition(ANSWER)
        question = last_message(question)
        _, opened, block = answer.rstrip().rpartition(SPAWN)
        named = block.removesuffix(END_SPAWN).split()
        if not opened or not block.endswith(END_SPAWN) or not named:
            return None
        lines = block.removesuffix(END_SPAWN).strip(self.between).split(self.between)
        parts = self.parts(question)
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
        """The result of a child's last line: by the pattern, or behind its last equals sign, if there is one."""
        if self.result is not None:
            found = re.search(self.result, output)
            return found[1] if found else None
        line = output.rstrip().rpartition("\n")[2]
        return line.rpartition("=")[2].strip() or None

    def join(self, spawn: Spawn, results: Sequence[str | None]) -> str:
        """The parent's text with the block, and the results behind it."""
        return spawn.before + join_block(results)


_POINTERS = TypeAdapter(PointerGrammar)


def pointer_grammar(fields: Mapping[str, Any]) -> PointerGrammar:
    """The grammar with ``fields``; BadInputError: they are no fields of `PointerGrammar`."""
    with errors_at("fields of PointerGrammar"):
        return _POINTERS.validate_python(fields)


def join_block(results: Sequence[str | None]) -> str:
    """A line per child, in the order of the block."""
    shown = "".join(f"{NO_RESULT if one is None else one}\n" for one in results)
    return f"\n{JOIN}\n{shown}{END_JOIN}\n"


_TASK = re.compile(r"<task>(.*?)</task>", re.DOTALL)
_TAG = re.compile(r"</?(?:spawn|task|join|result)>")
_INSTRUCTION = f"""\
Answer the question below. Parts of the work that do not depend on each other can be done at the same time: write
{SPAWN}
<task>one part, with all that is needed to do it</task>
<task>another part</task>
{END_SPAWN}
and stop there. The results follow between {JOIN} and {END_JOIN}. Then go on, and end with the final answer.

Question: """
_TASK_MESSAGE = """\
This is one part of the work on a larger question. Do this part alone, and end with its result.

What is known so far:
{context}

The part: {task}"""


def told(question: str) -> str:
    """The message of a parent: what the tags are for, and the question."""
    return _INSTRUCTION + question


@dataclass(frozen=True, slots=True, kw_only=True)
class TagGrammar(_SpawnTags):
    """Implements ThreadGrammar for any language model."""

    shares_prefix: bool
    """Children go on from their parent's text, whose keys the engine may still have; otherwise each is a message
    of its own, since a server that renders messages continues no text."""

    def find_spawn(self, text: str) -> Spawn | None:
        """The spawn block that ends the answer, if it has a task."""
        message, separator, answer = text.partition(ANSWER)
        before, opened, block = answer.rstrip().rpartition(SPAWN)
        tasks = [task.strip() for task in _TASK.findall(block)]
        if not opened or not block.endswith(END_SPAWN) or not any(tasks):
            return None
        before = f"{message}{separator}{before}"
        children = [
            Child(name=str(place), prompt=self._prompt(before, task) if task else None)
            for place, task in enumerate(tasks)
        ]
        return Spawn(before=before, children=children)

    def _prompt(self, before: str, task: str) -> str:
        if self.shares_prefix:
            return f"{before}<task>{task}</task>\n"
        message, _, answer = before.partition(ANSWER)
        context = f"{message.removeprefix(_INSTRUCTION)}\n{answer}".strip()
        return _TASK_MESSAGE.format(context=context, task=task) + ANSWER

    def read_result(self, output: str) -> str | None:
        """A child's text after its last join, without tags; None if it is empty."""
        _, _, text = output.rpartition(END_JOIN)
        removed = 1
        # The ends of a text around a tag may form another one.
        while removed:
            text, removed = _TAG.subn("", text)
        return text.strip() or None

    def join(self, spawn: Spawn, results: Sequence[str | None]) -> str:
        """The answer with the results in the place of the spawn block."""
        shown = "".join(f"<result>{one or 'none'}</result>\n" for one in results)
        return f"{spawn.before}{JOIN}\n{shown}{END_JOIN}\n"
