"""Tags for any language model: it is told to write its spawn blocks, and each child gets the words of its task."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.systems.apr.threads import Child, Spawn
from pipeline_lib.systems.apr.words.texts import ANSWER, END_JOIN, END_SPAWN, JOIN, SPAWN

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
class TagGrammar:
    """Implements ThreadGrammar for any language model."""

    shares_prefix: bool
    """Children go on from their parent's text, whose keys the engine may still have; otherwise each is a message
    of its own, since a server that renders messages continues no text."""

    @property
    def forbidden(self) -> Mapping[str, str]:
        """A join is written by the runtime alone."""
        return {JOIN: SPAWN}

    @property
    def terminators(self) -> Collection[str]:
        """Nothing is drawn behind a spawn block before its children have ended."""
        return (END_SPAWN,)

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
