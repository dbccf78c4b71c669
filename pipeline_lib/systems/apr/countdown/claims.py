"""The path that a rollout claims as its solution, and whether it is one. Texts are parsed, never evaluated."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.verify.countdown import judge

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
    """What a claim votes for: its operations with the numbers that each leaves; None without operations.

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
