"""Traces of a task of one's own, from the tries of the parts of its problems.

Choices of a part are tried in random order until one is right: by a child of its own (parallel), whose last try is its
result and part of the parent's answer, or part after part in one text (serial).
"""

import functools
from collections.abc import Mapping
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.problems.own_task import THREADS
from pipeline_lib.problems.tries import text_of, tries_of, until_right
from pipeline_lib.records import Problem, Row
from pipeline_lib.sampling.prompts import instruction
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.apr.task import load_named
from pipeline_lib.systems.apr.threads import Role
from pipeline_lib.systems.apr.words.grammars import pointer_grammar
from pipeline_lib.systems.apr.words.texts import ANSWER


@functools.cache
def settings_of(task: str) -> dict[str, str]:
    """The fields of the grammar of ``task``; BadInputError: its THREADS is no mapping of them."""
    found = load_named(f"{task}:{THREADS}", key="apr.data.task")
    if not isinstance(found, Mapping):
        raise BadInputError(
            f"apr.data.task={task}: {THREADS} is no mapping of fields of PointerGrammar"
        )
    return dict(found)


def trace_rows(problem: Problem, kind: str, task: str, *, seed: int) -> list[Row]:
    """The sequences of the trace of a problem of ``task``, as rows of a table of traces; both kinds have the same tries.

    Raises:
        BadInputError: the problem has no tries, or the grammar does not find as many parts in its prompt.
    """
    draw = child_random(seed, "tries", problem.id)
    tried = [until_right(draw, part) for part in tries_of(problem, where=task)]
    texts = [text_of(part) for part in tried]
    asked = instruction(problem)
    row: dict[str, Any] = {"problem_id": problem.id, "condition": "", "solved": True}
    parent = {**row, "role": Role.PARENT.value, "child": None}
    if kind == "serial":
        return [{**parent, "round": 0, "prefix": asked + ANSWER, "output": " ".join(texts)}]
    grammar = pointer_grammar(settings_of(task))
    block = grammar.block(grammar.parts(asked))
    spawn = grammar.find_spawn(asked + ANSWER + block)
    if spawn is None or len(spawn.children) != len(texts):
        raise BadInputError(
            f"apr.data.task={task}: {THREADS} does not find the {len(texts)} parts of problem {problem.id} in its prompt"
        )
    results = [grammar.read_result(text) for text in texts]
    last = " ".join(one or "" for one in results)
    child = {**row, "role": Role.CHILD.value, "round": 0}
    return [
        {**parent, "round": 0, "prefix": asked + ANSWER, "output": block},
        *(
            {**child, "child": place, "prefix": one.prompt, "output": text}
            for place, (one, text) in enumerate(zip(spawn.children, texts, strict=True))
        ),
        {**parent, "round": 1, "prefix": grammar.join(spawn, results), "output": last},
    ]
