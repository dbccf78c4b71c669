"""A task in one file: open three locks. A try is easy to check, the dial that opens is hard to guess.

    reasonloop task check locks
    reasonloop pacore run            # locks are its default
    reasonloop run --task locks --profile quickstart --workspace trial

A lock is four numbers c1 to c4 from 0 to 10, and v begins as its dial, from 0 to 10. Four times v becomes (v * v + c)
mod 11: the dial opens the lock if the last v is 0. Only locks that 1 to 4 dials open are in questions, and 12 % of them
are in test questions alone. In `A A2 A1=9 A2=4 A3=1 A!2` dial 2 is tried on lock A, with its four values, of which the
last, 0, is written as the dial that opens; `A4=7` says that it does not. Every word names its lock and its step.
"""

import functools
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

Lock = tuple[int, ...]

NAMES, DIALS, STEPS = "ABC", range(11), 4
HELD_OUT, MOST_DIALS = 0.12, 4

PROMPT = "{compact}"
"""For models from scratch; `--set prepare.prompt=locks:IN_WORDS` asks in words."""

IN_WORDS = """Open all locks. A lock has four numbers. A dial from 0 to 10 is the first value v; four times, with one \
of the numbers c after the other, v becomes (v * v + c) mod 11. The dial opens the lock if the last v is 0.
{question}
Write a line for each lock: its name, its dial, its values, and the dial in place of the last value if it opens, as in \
A A2 A1=9 A2=4 A3=1 A!2, or A A2 A1=9 A2=4 A3=1 A4=7 for a dial that does not open. The last line of a lock counts."""

THREADS = {
    "part": r"(?=\b([A-C]) )(\1(?: [a-c]\d:\d+)+)",
    "between": " ",
    "result": r"(\S+(?: \S+){5})\s*$",
}
"""A thread of APR opens one lock, named as in the question; its result is its last try."""

PIECE = re.compile(
    r"(?P<n>[A-C]) (?P=n)(\d+) (?P=n)1=(\d+) (?P=n)2=(\d+) (?P=n)3=(\d+) (?P=n)(?:4=(\d+)|!(\d+))"
)


def values(lock: Sequence[int], dial: int) -> list[int]:
    """The four values of a dial."""
    found = [dial]
    for number in lock:
        found.append((found[-1] ** 2 + number) % len(DIALS))
    return found[1:]


def piece(name: str, lock: Lock, dial: int) -> str:
    """The try of a dial on one lock."""
    *inner, last = values(lock, dial)
    steps = [f"{name}{step}={value}" for step, value in enumerate(inner, 1)]
    end = f"{name}4={last}" if last else f"{name}!{dial}"
    return " ".join([name, f"{name}{dial}", *steps, end])


@functools.cache
def dials_of(lock: Lock) -> list[int]:
    """The dials that open a lock."""
    return [dial for dial in DIALS if values(lock, dial)[-1] == 0]


@functools.cache
def pools() -> dict[bool, list[Lock]]:
    """All locks by whether they are held out."""
    draw = random.Random(11)  # noqa: S311 - no secret
    found: dict[bool, list[Lock]] = {False: [], True: []}
    for lock in itertools.product(DIALS, repeat=STEPS):
        is_held_out = draw.random() < HELD_OUT
        if 1 <= len(dials_of(lock)) <= MOST_DIALS:
            found[is_held_out].append(lock)
    return found


def problems(split: str, seed: int) -> Iterator[dict[str, Any]]:
    """Endless questions of a split; the answer is their locks."""
    draw = random.Random(f"{split} {seed}")  # noqa: S311 - no secret
    while True:
        locks = dict(zip(NAMES, draw.choices(pools()[split == "test"], k=len(NAMES)), strict=True))
        lines = [f"{name}: {', '.join(map(str, lock))}" for name, lock in locks.items()]
        compact = [
            f"{name} {' '.join(f'{name.lower()}{step}:{c}' for step, c in enumerate(lock, 1))}"
            for name, lock in locks.items()
        ]
        solution = [piece(name, lock, draw.choice(dials_of(lock))) for name, lock in locks.items()]
        yield {
            "question": "\n".join(lines),
            "compact": " ".join(["Q", *compact]),
            "answer": [*locks.values()],
            "solution": " ".join(solution),
            **({} if split == "test" else {"tries": [tries(*one) for one in locks.items()]}),
        }


@functools.cache
def tries(name: str, lock: Lock) -> list[tuple[str, str, bool]]:
    """Every dial of a lock: the choice, what follows from it, and whether it opens."""
    found = [piece(name, lock, dial).split(" ", 2) for dial in DIALS]
    return [(f"{name} {dial}", rest, "!" in rest) for _, dial, rest in found]


def pieces(text: str) -> list[str]:
    """The last try of each lock; none if the text is no answer."""
    all_tries = [" ".join(one.split()) for one in re.split(r"\s+(?=[A-C](?:\s|$))", text.strip())]
    found = [one for one, after in itertools.pairwise([*all_tries, ""]) if one[:1] != after[:1]]
    return found if [one[:1] for one in found] == list(NAMES) else []


def answer(text: str) -> str | None:
    """The dials, which a majority vote compares."""
    found = [PIECE.fullmatch(one) for one in pieces(text)]
    return " ".join(one[2] for one in found if one) if found and all(found) else None


def parts(answer: Sequence[Sequence[int]], text: str) -> list[dict[str, Any]]:
    """For each lock its try, on which a vote is taken, and what is true of it, which needs no solution."""
    found = itertools.zip_longest(answer, pieces(text))
    return [{"text": one, **checked(lock, one or "")} for lock, one in found]


def checked(lock: Sequence[int], text: str) -> dict[str, Any]:
    """Of a try: is it readable, what share of its values is true, does it claim to open the lock, and does its dial."""
    found = PIECE.fullmatch(text)
    if found is None or int(found[2]) not in DIALS:
        return {"formed": False, "true": 0.0, "claims": False, "right": False}
    dial, claims = int(found[2]), found[7] is not None
    stated = [*map(int, found.groups()[1:5]), 0 if claims else int(found[6])]
    steps = zip(itertools.pairwise(stated), lock, strict=True)
    true = [(v * v + c) % len(DIALS) == after for (v, after), c in steps]
    true[-1] &= int(found[7]) == dial if claims else stated[-1] != 0
    right = dial in dials_of(tuple(lock))
    return {"formed": True, "true": sum(true) / len(true), "claims": claims, "right": right}


def verify(answer: Sequence[Sequence[int]], text: str) -> bool:
    """Strict: every lock is opened, and every value is true."""
    return all(one["right"] and one["claims"] and one["true"] == 1 for one in parts(answer, text))


def validate() -> Iterator[tuple[dict[str, Any], str, bool]]:
    """A problem, a text, and whether it must be right."""
    problem = next(problems("test", 0))
    solution = problem["solution"]
    yield problem, solution.replace(" B", "\nB", 1), True
    yield problem, solution.rpartition(" ")[0], False
    yield problem, f"{solution} C", False
    yield problem, f"{pieces(solution)[0]} {solution}", True
    for name, lock, own in zip(NAMES, problem["answer"], pieces(solution), strict=True):
        shut = next(dial for dial in DIALS if dial not in dials_of(lock))
        yield problem, solution.replace(own, piece(name, lock, shut)), False
        lie = own.replace(f"{name}3=", f"{name}3=1" if f"{name}3=1" not in own else f"{name}3=2")
        yield problem, solution.replace(own, lie), False
