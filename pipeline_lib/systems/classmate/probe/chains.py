"""Chains to probe: lines as `reasonloop verify` reads them, in steps."""

import pathlib
import re
from collections.abc import Sequence

from pipeline_lib.engines.chat_model import ChatFormat
from pipeline_lib.errors import BadInputError
from pipeline_lib.records import Problem
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.classmate.cut import split_steps
from pipeline_lib.systems.classmate.leaks import Chain
from pipeline_lib.terminal_text import one_line
from pipeline_lib.verify.lines import UNKNOWN, Line, read_lines

_SHOWN_CHARACTERS = 60
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_chains(path: pathlib.Path, *, step: str) -> list[Chain]:
    """The chains of a file of JSON lines, in order; ``step`` separates their steps.

    Raises:
        BadInputError: no such file, no line, an id twice, a line that cannot be used or has no step.
    """
    chains = [_chain(line, path, step=step) for line in read_lines(path)]
    if not chains:
        raise BadInputError(f"{path}: no chains; give lines as `reasonloop verify` reads them")
    return chains


def _chain(line: Line, path: pathlib.Path, *, step: str) -> Chain:
    steps = split_steps(line.text or "", step)
    if not steps:
        raise BadInputError(f"{path}: {_shown(line.id)}: text: has no step; leave the line out")
    for name, text in (("text", line.text), ("question", line.question)):
        if text and _SURROGATE.search(text):
            raise BadInputError(
                f"{path}: {_shown(line.id)}: {name}: has a lone surrogate, which no tokenizer reads; remove it"
            )
    problem = Problem(id=line.problem_id, question=line.question, gold=line.gold, source=UNKNOWN)
    return Chain(id=line.id, problem=problem, steps=steps)


def check_questions(chains: Sequence[Chain], chat_format: ChatFormat | None, *, peer: str) -> None:
    """Refuse a chain without a question if a peer's prompt of its kind is in words."""
    is_compact = chat_format is None or chat_format.is_compact
    for chain in chains:
        kind = chain.problem.kind
        in_words = kind.compact_prompt is None or not is_compact
        if in_words and not chain.problem.question.strip():
            raise BadInputError(
                f"{_shown(chain.id)}: question: is missing, and classmate {peer} is asked {kind.name} in words; "
                "add it to the line"
            )


def donors(chains: Sequence[Chain], *, seed: int) -> dict[str, Chain]:
    """For each chain, by its id, the next one of another problem in a shuffled order: its prefixes are the control.

    Raises:
        BadInputError: all chains are of one problem.
    """
    order = list(chains)
    child_random(seed, "probe", "shuffled").shuffle(order)
    found = {}
    for place, chain in enumerate(order):
        others = (*order[place + 1 :], *order[:place])
        donor = next((one for one in others if one.problem.id != chain.problem.id), None)
        if donor is None:
            raise BadInputError(
                f"--shuffled: all chains are of problem {_shown(chain.problem.id)}; give chains of two problems"
            )
        found[chain.id] = donor
    return found


def _shown(name: str) -> str:
    return one_line(repr(name), most=_SHOWN_CHARACTERS)
