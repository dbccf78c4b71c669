"""The grammar of Countdown threads: spawn blocks, results, joins; and the path that a rollout claims as its solution.

Texts are parsed, never evaluated.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.lines import Style
from pipeline_lib.systems.apr.threads import Child, Spawn
from pipeline_lib.verify.countdown import judge

_UNREADABLE = "?"
"""Name of a child whose line in the spawn block is none of the grammar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountdownGrammar:
    """Implements ThreadGrammar for the texts of one style, or of any."""

    style: Style | None = None
    """None: the style of each text; only published ones number their nodes."""

    @property
    def forbidden(self) -> Mapping[str, str]:
        """A join is written by the runtime alone; where a model begins one, it is made to spawn.

        First with its line feed, which is part of the token: a cut within a token loses the sequence's ids.
        """
        return {f"\n{lines.JOIN}": f"\n{lines.CALL}", lines.JOIN: lines.CALL}

    @property
    def terminators(self) -> Collection[str]:
        """None: models are trained to end behind a spawn block."""
        return ()

    def find_spawn(self, text: str) -> Spawn | None:
        """The spawn block that ends ``text``; a child whose node is unknown has no prompt."""
        before, called, block = text.rstrip("\n").rpartition(f"\n{lines.CALL}\n")
        *started, end = block.split("\n")
        if not called or end != lines.END_CALL:
            return None
        condition, plain = lines.split_condition(before)
        # It holds for each sequence, so children inherit it.
        kept = condition if condition.startswith(lines.TOKEN_BUDGET) else ""
        prompts = self._prompts(plain)
        names = [
            found["node"] if found else _UNREADABLE
            for found in map(lines.START_LINE.fullmatch, started)
        ]
        children = []
        for name in names:
            prompt = prompts.get(name)
            children.append(Child(name=name, prompt=None if prompt is None else kept + prompt))
        return Spawn(before=before, children=children)

    def read_result(self, output: str) -> str | None:
        """The summary path at the end of a child's output."""
        return lines.read_result(output)

    def join(self, spawn: Spawn, results: Sequence[str | None]) -> str:
        """The parent's text with the join in the place of the spawn block."""
        block = lines.join([child.name for child in spawn.children], results)
        return "\n".join([spawn.before, *block])

    def _prompts(self, text: str) -> dict[str, str]:
        """Prompts of the threads at all nodes that ``text`` defines, by node."""
        style = self.style
        if style is None:
            numbered = any(map(lines.GENERATED_LINE.fullmatch, text.split("\n")))
            style = "published" if numbered else "compact"
        nodes = _listed_nodes(text) if style == "compact" else _generated_nodes(text)
        return {name: f"{lines.move(name)}\n{lines.state(*state)}" for name, state in nodes}


_State = tuple[int, tuple[int, ...], tuple[str, ...]]
"""Target, numbers and operations of a node."""


def _listed_nodes(text: str) -> Iterator[tuple[str, _State]]:
    """Compact: the operations of the root, in order; operations of results are behind a join."""
    own, _, _ = text.partition(f"\n{lines.JOIN}\n")
    state = lines.STATE_LINE.search(own)
    if state is None:
        return
    explored = [line for line in own.split("\n") if line.startswith(lines.EXPLORE)]
    for number, line in enumerate(explored):
        found = lines.EXPLORE_LINE.fullmatch(line)
        if found is not None:
            numbers = lines.read_numbers(found["numbers"])
            yield f"0,{number}", (int(state["target"]), numbers, (found["operation"],))


def _generated_nodes(text: str) -> Iterator[tuple[str, _State]]:
    """Published: the nodes with a state or a number of their own; of two with one id, the first."""
    known: dict[str, _State] = {}
    moved = None
    for line in text.split("\n"):
        state, generated = lines.STATE_LINE.fullmatch(line), lines.GENERATED_LINE.fullmatch(line)
        if state is not None and moved is not None:
            numbers = lines.read_numbers(state["numbers"])
            operations = lines.read_operations(state["operations"])
            known.setdefault(moved, (int(state["target"]), numbers, operations))
        elif generated is not None:
            parent = known.get(generated["node"].rpartition(",")[0])
            if parent is not None:
                numbers = lines.read_numbers(generated["numbers"])
                operations = (*parent[2], generated["operation"])
                known.setdefault(generated["node"], (parent[0], numbers, operations))
        turned = lines.MOVE_LINE.fullmatch(line)
        moved = turned["node"] if turned else None
    yield from known.items()


_VALUES = re.compile(r"[0-9]+")
_OPERATION = re.compile(r"([0-9]+)([-+*/])([0-9]+)=([0-9]+)")


def read_problem(prompt: str) -> CountdownGold | None:
    """The problem of a root thread's prompt, with or without a condition; None if it is no such prompt."""
    _, plain = lines.split_condition(prompt)
    found = lines.STATE_LINE.fullmatch(plain.removeprefix(f"{lines.move('0')}\n"))
    if found is None or found["operations"]:
        return None
    return CountdownGold(numbers=lines.read_numbers(found["numbers"]), target=int(found["target"]))


def read_claim(prefix: str, output: str) -> str | None:
    """The path that the last segment of a parent claims; None if it claims none.

    A claim is the summary path in ``output``. A parent that only states success after a join, as in the
    compact style, claims the first result of that join; without one its claim is empty, so it is wrong.
    """
    summary = lines.read_result(output)
    if summary is not None:
        return summary
    if not any(map(lines.GOAL_LINE.fullmatch, output.split("\n"))):
        return None
    _, _, after = prefix.rpartition(f"\n{lines.JOIN}\n")
    joined, _, _ = after.partition(f"\n{lines.END_JOIN}")
    _, _, reached = joined.partition(lines.REACHED)
    result = takewhile(lambda line: not line.startswith("<"), reached.split("\n")[1:])
    return "\n".join(result)


def is_right(gold: CountdownGold, claim: str | None) -> bool:
    """True if the operations of ``claim`` solve the problem, each with the true resulting numbers."""
    if claim is None:
        return False
    explored = [line for line in claim.split("\n") if line.startswith(lines.EXPLORE)]
    steps = [found for line in explored if (found := lines.EXPLORE_LINE.fullmatch(line))]
    operations = [step["operation"] for step in steps]
    if len(steps) < len(explored) or judge(gold, "\n".join(operations)).strict is not True:
        return False
    left = Counter(gold.numbers)
    for step in steps:
        first, second, result = map(int, _VALUES.findall(step["operation"]))
        left = left - Counter([first, second]) + Counter([result])
        if left != Counter(lines.read_numbers(step["numbers"])):
            return False
    return True


def is_child_right(gold: CountdownGold, prompt: str, output: str) -> bool:
    """True if a child's result solves the problem: from the root, or from the node of its prompt on."""
    result = lines.read_result(output)
    if result is None:
        return False
    return is_right(gold, result) or is_right(
        gold, "\n".join([*_steps_of_prompt(gold, prompt), result])
    )


def _steps_of_prompt(gold: CountdownGold, prompt: str) -> Iterator[str]:
    found = lines.STATE_LINE.fullmatch(prompt.rsplit("\n", maxsplit=1)[-1])
    numbers = Counter(gold.numbers)
    for operation in lines.read_operations(found["operations"]) if found else ():
        first, second, result = map(int, _VALUES.findall(operation))
        numbers = numbers - Counter([first, second]) + Counter([result])
        yield lines.step(operation, [*numbers.elements()])


def answer_of(claim: str | None) -> str | None:
    """The vote of a claim: its operations with the numbers that each leaves; None without operations.

    Commuted operands and the order of the numbers make no difference. Nothing is checked, so equal answers
    to one problem are right or wrong alike.
    """
    explored = (
        [] if claim is None else [one for one in claim.split("\n") if one.startswith(lines.EXPLORE)]
    )
    return "; ".join(map(_step_form, explored)) or None


def _step_form(line: str) -> str:
    step = lines.EXPLORE_LINE.fullmatch(line)
    found = None if step is None else _OPERATION.fullmatch(step["operation"])
    if step is None or found is None:
        return line
    left, sign, right, result = found.groups()
    operands = sorted([left, right], key=int) if sign in "+*" else [left, right]
    numbers = sorted(lines.read_numbers(step["numbers"]))
    return f"{sign.join(operands)}={result} {numbers}"
