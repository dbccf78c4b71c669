"""Threads of a language model on questions in natural language: limits and accounting, whatever it writes.

Each line of FILE is an object with a ``question``. All questions are answered at once, each within the limits
of `reasonloop apr solve`; answers are not judged. Of each rollout it is checked that the limits of children,
draws and tokens hold, and that calls, drawn tokens, children and the critical path are those of its
sequences.

    python -m benchmarks.apr_solve models/smollm2 data/raw/gsm8k/test.jsonl --questions 30
    python -m benchmarks.apr_solve models/smollm2 questions.jsonl --temperature 1 --all-tokens 1024
"""

import argparse
import math
import pathlib
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.systems.apr.solve import Solver, answer_of
from pipeline_lib.systems.apr.threads import DrawnSequence, Event, Limits, Role, Rollout

SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over all rollouts."""

    questions: int
    failed: int
    spawning: int
    """Rollouts with a child."""
    ends: dict[str, int]
    """Of the parents."""
    events: dict[str, int]
    calls: int
    failed_calls: int
    drawn_tokens: int
    critical_tokens: int
    broken: list[str]
    """Rules that do not hold."""


def check_rules(rollout: Rollout, limits: Limits, *, max_tokens: int) -> dict[str, bool]:
    """Limits and sums of a rollout that did not fail, and whether each holds."""
    cost, events = rollout.cost, rollout.events
    parent = [one for one in rollout.sequences if one.role is Role.PARENT]
    rounds: defaultdict[int, Counter[int | None]] = defaultdict(Counter)
    for one in rollout.sequences:
        if one.role is Role.CHILD:
            rounds[one.round][one.child] += _length(one)
    drawn = sum(map(_length, rollout.sequences))
    critical = sum(map(_length, parent)) + sum(max(sizes.values()) for sizes in rounds.values())
    # Otherwise some calls have no sequence, or some sequences no ids.
    is_whole = not (cost.failed_calls or events[Event.WASTED_TOKENS] or events[Event.LOST_IDS])
    children = sum(map(len, rounds.values()))
    left_out = events[Event.UNKNOWN_CHILDREN] + events[Event.EXCESS_CHILDREN]
    return {
        "drawn tokens within their limit": cost.completion_tokens <= (limits.tokens or math.inf),
        "each draw within its limit": cost.longest_tokens <= max_tokens,
        "draws of the parent within their limit": len(parent) <= limits.draws,
        "children of each spawn within their limit": all(
            len(sizes) <= limits.children for sizes in rounds.values()
        ),
        "calls are sequences": not is_whole or cost.calls == len(rollout.sequences),
        "drawn tokens are those of the sequences": not is_whole or cost.completion_tokens == drawn,
        "critical tokens are the parent's and each round's longest child's": not is_whole
        or cost.critical_tokens == critical,
        # A child without room, or without tokens left, draws nothing.
        "children are no more than those that were spawned": children
        <= events[Event.CHILDREN] - left_out,
    }


def _length(sequence: DrawnSequence) -> int:
    return len(sequence.output_ids or ())


def total(rollouts: Sequence[Rollout], limits: Limits, *, max_tokens: int) -> Totals:
    """Sums and broken rules over all rollouts."""
    events: Counter[Event] = Counter()
    for rollout in rollouts:
        events.update(rollout.events)
    return Totals(
        questions=len(rollouts),
        failed=sum(one.error is not None for one in rollouts),
        spawning=sum(one.events[Event.CHILDREN] > 0 for one in rollouts),
        ends=dict(Counter(one.end.value for one in rollouts)),
        events={event.value: count for event, count in sorted((+events).items())},
        calls=sum(one.cost.calls for one in rollouts),
        failed_calls=sum(one.cost.failed_calls for one in rollouts),
        drawn_tokens=sum(one.cost.completion_tokens for one in rollouts),
        critical_tokens=sum(one.cost.critical_tokens for one in rollouts),
        broken=[
            f"question {place}: not so: {rule}"
            for place, one in enumerate(rollouts)
            if one.error is None
            for rule, holds in check_rules(one, limits, max_tokens=max_tokens).items()
            if not holds
        ],
    )


def show(found: Totals, seconds: float) -> None:
    """Print the sums."""
    print(f"{found.questions} questions, {found.failed} failed, {found.spawning} with threads")
    print(f"parents ended: {found.ends}")
    print(f"counted: {found.events}")
    print(f"calls: {found.calls}, {found.failed_calls} failed")
    print(
        f"tokens: {found.drawn_tokens} drawn, {found.critical_tokens} critical, {seconds:.0f} CPU s"
    )
    print(f"limits and sums that do not hold: {len(found.broken)}")
    for text in found.broken:
        print(text)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)
    parser.add_argument("model", help="a Hugging Face folder")
    parser.add_argument("file", type=pathlib.Path, help="JSON lines with a question each")
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--children", type=int, default=4)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--all-tokens", type=int, default=256)
    add_output(parser)
    return parser.parse_args()


def main() -> None:
    """Answer, check, print, write."""
    arguments = parse_arguments()
    torch.set_num_threads(1)
    lines = list(read_json_lines(arguments.file))[: arguments.questions]
    limits = Limits(children=arguments.children, draws=arguments.draws, tokens=arguments.all_tokens)
    with (
        tempfile.TemporaryDirectory() as logs,
        started_engine(
            arguments.model, ServeParams(), log_folder=pathlib.Path(logs), batch_size=len(lines)
        ) as engine,
    ):
        start = time.process_time()
        solver = Solver(
            engine=engine,
            limits=limits,
            decoding=Decoding(
                temperature=arguments.temperature, max_new_tokens=arguments.max_tokens
            ),
            concurrency=len(lines) * arguments.children,
            seed=SEED,
        )
        rollouts = solver.solve([line["question"] for line in lines])
        seconds = time.process_time() - start
    found = total(rollouts, limits, max_tokens=arguments.max_tokens)
    show(found, seconds)
    settings = {key: str(value) for key, value in vars(arguments).items() if key != "output"}
    shown = [
        {
            "question": line["question"],
            "answer": answer_of(one),
            "children": one.events[Event.CHILDREN],
        }
        for line, one in zip(lines, rollouts, strict=True)
    ]
    write_results(
        arguments.output,
        {
            "settings": settings,
            "cpu_seconds": seconds,
            "calls": found.calls,
            "drawn_tokens": found.drawn_tokens,
            "broken": found.broken,
            "answers": shown,
        },
    )


if __name__ == "__main__":
    main()
