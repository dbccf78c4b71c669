"""Seconds of asking classmates: one, two one after another, and two at once, in one run.

The questions are the first lines of worked Countdown solutions, one per problem, with ``--paths`` seeds each. Each
measure is the fastest of ``--repeats``, in turns. Without ``--peers`` the classmates are two Llamas of the default base
policy's size with random weights, which draw up to the limit of tokens.

    python -m benchmarks.classmate --problems 32 --paths 8 --output classmate.json
    python -m benchmarks.classmate --peers models/peers/a models/peers/b --runner ray
"""

import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from benchmarks.lib.command_line import add_output, make_parser, write_results
from flows.classmate_peers import opened_peers
from pipeline_lib.classmate.peer import Peer, Question
from pipeline_lib.determinism import deterministic
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.paths import BootstrapParams, CountdownParams
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.records import FinishReason
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.serving.chat_model import Decoding
from pipeline_lib.training.bootstrap import save_blank_policy

SEED = 7
_TIMEOUT_S = 600.0


def make_questions(problems: int, paths: int) -> list[Question]:
    """The first line of a solution of each problem."""
    drawn = generate(CountdownParams(), seed=SEED, count=problems)
    return [
        Question(
            problem=problem,
            prefix=problem.kind.solution_texts(problem.gold, problem.solution)[0].splitlines(
                keepends=True
            )[0],
            seeds=tuple(consecutive_seeds(paths, SEED, problem.id)),
        )
        for problem in drawn
        if problem.solution is not None
    ]


def make_models(folder: pathlib.Path) -> list[pathlib.Path]:
    """Two models with random weights."""
    problems = generate(CountdownParams(), seed=SEED, count=200)
    rows = solution_rows(problems, None)
    found = []
    for number in range(2):
        found.append(folder / f"peer-{number}")
        with deterministic(threads=1, seed=number):
            save_blank_policy(found[-1], rows, BootstrapParams())
    return found


def measure(
    peers: Sequence[Peer], questions: Sequence[Question], decoding: Decoding, *, repeats: int
) -> dict[str, float]:
    """Seconds of each way of asking the same questions."""
    first, second = peers

    def ask(peer: Peer) -> int:
        answers = peer.answer(questions, decoding, timeout_s=_TIMEOUT_S)
        drawn = [one for answer in answers for one in answer]
        assert all(one.finish_reason is not FinishReason.ERROR for one in drawn)
        return sum(one.completion_tokens for one in drawn)

    def at_once() -> None:
        with ThreadPoolExecutor(len(peers)) as pool:
            list(pool.map(ask, peers))

    ways: dict[str, Callable[[], object]] = {
        "first": lambda: ask(first),
        "second": lambda: ask(second),
        "one after another": lambda: [ask(peer) for peer in peers],
        "at once": at_once,
    }
    found = {"tokens of the first": float(ask(first)), "tokens of the second": float(ask(second))}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            found[name] = min(time.perf_counter() - start, found.get(name, float("inf")))
    return found


@contextmanager
def running(execution: ExecutionParams) -> Iterator[None]:
    """Ray, if the peers are its actors."""
    if execution.runner == "thread":
        yield
        return
    from flows import server  # noqa: PLC0415 - thread runs need neither
    from flows.runners import cluster  # noqa: PLC0415

    server.ensure()
    with cluster(execution):
        yield


def main() -> None:
    """Measure, print, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--peers", type=pathlib.Path, nargs=2, help="folders of two models")
    parser.add_argument("--runner", choices=("thread", "ray"), default="thread")
    parser.add_argument("--problems", type=int, default=32)
    parser.add_argument("--paths", type=int, default=8)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    add_output(parser)
    arguments = parser.parse_args()
    questions = make_questions(arguments.problems, arguments.paths)
    decoding = Decoding(temperature=0.7, top_p=0.9, max_new_tokens=arguments.max_new_tokens)
    execution = ExecutionParams(runner=arguments.runner)
    with tempfile.TemporaryDirectory() as name, running(execution):
        root = pathlib.Path(name)
        folders = arguments.peers or make_models(root)
        peers = [
            PeerParams(name=f"peer-{number}", model=str(folder))
            for number, folder in enumerate(folders)
        ]
        with opened_peers(peers, execution, root=root, is_training=False) as opened:
            found = measure(opened, questions, decoding, repeats=arguments.repeats)
    print(
        f"{len(questions)} prefixes, {arguments.paths} continuations each, {execution.runner} runner"
    )
    for number in ("first", "second"):
        print(
            f"{number} alone: {found[number]:.2f} s, {found[f'tokens of the {number}']:.0f} tokens"
        )
    added = (found["at once"] - found["first"]) / found["second"]
    print(
        f"one after another {found['one after another']:.2f} s, at once {found['at once']:.2f} s, "
        f"{found['at once'] / found['one after another']:.2f} of it; the second adds {added:.0%} of its own time"
    )
    write_results(arguments.output, {**found, "added": added})


if __name__ == "__main__":
    main()
