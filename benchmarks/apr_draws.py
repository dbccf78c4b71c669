"""Tokens a CPU second of an evaluation of threads, beside the same sequences as one flat batch.

`rollouts` draws greedily what `reasonloop apr evaluate` draws, in process: scheduler, joins, texts, verdicts.
`flat` draws the same sequences by the same engine at once: no thread waits for another, and no text is read.
Each sequence has its length as its limit, so both sides draw equal numbers of tokens. Sides take turns; the
first turn is not counted.

    python -m benchmarks.apr_draws models/apr-parallel --data data/apr --output apr_draws.json
    python -m benchmarks.apr_draws models/apr-serial --data data/apr --problems 500
"""

import argparse
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import torch

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.continuous_batch import SequenceRequest
from pipeline_lib.engines.embedded.embedded_engine import shared_engine
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.store.shards import split
from pipeline_lib.systems.apr.data_folder import check_data, problem_file
from pipeline_lib.systems.apr.evaluation.plans import ThreadModel
from pipeline_lib.systems.apr.model_record import choose_condition, read_record
from pipeline_lib.systems.apr.problem_lines import read_problems
from pipeline_lib.systems.apr.task import evaluated_row
from pipeline_lib.systems.apr.threads import DrawnSequence, Rollout, Root

SEED = 7
_BATCH = 64
"""Sequences decoded together, as in an evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One side, once."""

    side: str
    tokens: int
    """Drawn."""
    seconds: float
    cpu_seconds: float


def draw_rollouts(
    model: ThreadModel, problems: Sequence[Problem], *, together: int
) -> list[Rollout]:
    """The greedy rollouts of an evaluation, ``together`` of them at a time."""
    condition = choose_condition(model.folder, model.record, None)
    rollouts: list[Rollout] = []
    for group in split(problems, together):
        roots = [
            Root(
                problem_id=problem.id,
                sample=0,
                prompt=model.task.prompt(problem, condition),
            )
            for problem in group
        ]
        rollouts += model.draw(roots, temperature=0.0, seed=SEED, first_success=False)
    judged = model.task.judge(rollouts, {problem.id: problem for problem in problems})
    for rollout, its in zip(rollouts, judged, strict=True):
        evaluated_row(rollout, its)
    return rollouts


def draw_flat(model: ThreadModel, sequences: Sequence[DrawnSequence]) -> int:
    """Draw all sequences as one batch; the tokens drawn."""
    engine = shared_engine(str(model.folder), batch_size=_BATCH)
    torch.set_num_threads(1)
    batch = engine.open_batch()
    batch.add(
        [
            SequenceRequest(
                id=place,
                prompt_ids=engine.tokenizer.encode(one.prefix, add_special_tokens=False),
                seed=SEED,
                decoding=Decoding(temperature=0.0, max_new_tokens=len(one.output_ids or ())),
            )
            for place, one in enumerate(sequences)
            if one.output_ids
        ]
    )
    tokens = 0
    while not batch.idle:
        tokens += len(batch.step())
    return tokens


def timed(side: str, draw: Callable[[], int]) -> Turn:
    """One turn of ``draw``, which returns the tokens drawn."""
    start, cpu = time.perf_counter(), time.process_time()
    tokens = draw()
    return Turn(
        side=side,
        tokens=tokens,
        seconds=time.perf_counter() - start,
        cpu_seconds=time.process_time() - cpu,
    )


def measure(
    model: ThreadModel, problems: Sequence[Problem], *, repeats: int, together: int
) -> list[Turn]:
    """Both sides in turns, without the first one."""
    sequences = [
        one
        for rollout in draw_rollouts(model, problems, together=together)
        for one in rollout.sequences
    ]

    def rollouts() -> int:
        drawn = draw_rollouts(model, problems, together=together)
        return sum(one.cost.completion_tokens for one in drawn)

    sides: Mapping[str, Callable[[], int]] = {
        "rollouts": rollouts,
        "flat": lambda: draw_flat(model, sequences),
    }
    return [timed(name, draw) for _ in range(repeats + 1) for name, draw in sides.items()][2:]


def show(turns: Sequence[Turn]) -> None:
    """Print the median rates, and their share with its range over the turns."""
    rates = {
        name: [turn.tokens / turn.cpu_seconds for turn in turns if turn.side == name]
        for name in ("rollouts", "flat")
    }
    print(f"{'side':10}{'tokens':>9}{'tokens/CPU s':>14}")
    for name, some in rates.items():
        tokens = next(turn.tokens for turn in turns if turn.side == name)
        print(f"{name:10}{tokens:>9}{statistics.median(some):>14.0f}")
    shares = [one / other for one, other in zip(rates["rollouts"], rates["flat"], strict=True)]
    print(f"share {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)
    parser.add_argument("model", type=pathlib.Path, help="folder of `reasonloop apr train`")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--problems", type=int, default=128, help="of the split valid")
    parser.add_argument("--together", type=int, default=128, help="rollouts drawn at a time")
    parser.add_argument("--repeats", type=int, default=3)
    add_output(parser)
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    arguments = parse_arguments()
    check_data(arguments.data)
    problems = read_problems(problem_file(arguments.data, "valid"))[: arguments.problems]
    model = ThreadModel(
        folder=arguments.model,
        record=read_record(arguments.model),
        serve=None,
        verify=VerifyParams(),
        batch_size=64,
        grammar=None,
    )
    turns = measure(model, problems, repeats=arguments.repeats, together=arguments.together)
    show(turns)
    settings = {key: str(value) for key, value in vars(arguments).items() if key != "output"}
    write_results(arguments.output, {"settings": settings, "turns": [asdict(one) for one in turns]})


if __name__ == "__main__":
    main()
