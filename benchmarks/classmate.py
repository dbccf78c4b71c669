"""Seconds of a GRPO step with no, one and two classmates, of the two at once and one after another.

All in one run, in turns that begin with another way each time; the median of all steps but the first of each
training. The second classmate adds to a step with one what it adds at once, and its serial time one after another. The
share of distinct prefixes is that of the paths' prefixes that were asked. Without ``--base`` and ``--peers`` the models
are Llamas that are first trained on worked Countdown solutions, for ``--made-steps`` steps.

    python -m benchmarks.classmate --output classmate.json
    python -m benchmarks.classmate --base models/base --peers models/peers/a models/peers/b --runner ray
"""

import itertools
import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.lib.command_line import add_output, make_parser, write_results
from flows.ray.classmate_peers import running_peers
from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.engines.pretrained import load_chat_format, load_tokenizer
from pipeline_lib.params.classmate import ClassmateParams, PeerParams
from pipeline_lib.params.paths import BootstrapParams, CountdownParams, VerifyParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.systems.classmate.peer import Peer, Question
from pipeline_lib.systems.classmate.reward import make_classmate_rewards
from pipeline_lib.train.bootstrap import make_base_policy
from pipeline_lib.train.methods import TrainingRequest, train_policy

SEED = 7
PROBLEMS = 2000
PATH_TOKENS = 64


@dataclass(frozen=True, slots=True)
class InTurn:
    """A peer that answers while no other one does. Implements Peer."""

    inner: Peer
    lock: threading.Lock

    @property
    def name(self) -> str:
        """Of the peer."""
        return self.inner.name

    @property
    def identity(self) -> str:
        """Of the peer."""
        return self.inner.identity

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float
    ) -> list[list[Completion]]:
        """The peer's answer."""
        with self.lock:
            return self.inner.answer(questions, decoding, timeout_s=timeout_s)


@dataclass(kw_only=True)
class Trainings:
    """Short trainings of one base, with a clock at each step."""

    base: pathlib.Path
    root: pathlib.Path
    problems: Sequence[Problem]
    train: TrainParams
    classmate: ClassmateParams
    shares: list[float] = field(default_factory=list)
    """Of distinct prefixes, by step with peers."""
    _names: Iterator[int] = field(default_factory=itertools.count)

    def seconds(self, peers: Sequence[Peer]) -> list[float]:
        """Seconds of each step but the first of a training with ``peers``."""
        output = self.root / str(next(self._names))
        chat_format = load_chat_format(str(self.base))
        rewards = make_classmate_rewards(
            peers,
            self.problems,
            tokenizer=load_tokenizer(str(self.base)),
            params=self.classmate,
            train=self.train,
            seed=SEED,
            folder=output.with_name(f"{output.name}-draws"),
        )
        ends: list[float] = []

        def progress(_step: int, _steps: int, metrics: Mapping[str, float]) -> None:
            ends.append(time.perf_counter())
            self.shares += [metrics["unique_share"]] if peers else []

        train_policy(
            TrainingRequest(
                base=str(self.base),
                output=output,
                rows=[
                    {"prompt": render(problem, chat_format), "problem_id": problem.id}
                    for problem in self.problems
                ],
                problems=self.problems,
                params=self.train,
                verify=VerifyParams(),
                make_rewards=rewards if peers else None,
                max_new_tokens=PATH_TOKENS,
                seed=SEED,
                key=output.name,
                progress=progress,
            )
        )
        return [after - before for before, after in itertools.pairwise(ends)]


def make_model(folder: pathlib.Path, *, seed: int, steps: int) -> pathlib.Path:
    """A model that was trained on worked solutions of other problems."""
    problems = generate(CountdownParams(), seed=seed, count=500)
    rows = solution_rows(problems, None)
    make_base_policy(rows, folder, params=BootstrapParams(steps=steps), seed=seed, key=folder.name)
    return folder


def measure(
    trainings: Trainings, peers: Sequence[Peer], *, repeats: int
) -> dict[str, dict[str, float]]:
    """Median, fastest and slowest seconds of a step, by way of asking."""
    lock = threading.Lock()
    ways: dict[str, Sequence[Peer]] = {
        "none": [],
        "one": peers[:1],
        "two at once": peers,
        "two one after another": [InTurn(peer, lock) for peer in peers],
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    order = [*ways]
    for _ in range(repeats):
        for name in order:
            seconds[name] += trainings.seconds(ways[name])
        order = [*order[1:], order[0]]
    return {
        name: {"median": statistics.median(found), "least": min(found), "most": max(found)}
        for name, found in seconds.items()
    }


def report(found: Mapping[str, Mapping[str, float]], shares: Sequence[float]) -> dict[str, float]:
    """Print the table and the ratios; returns the ratios."""
    for name, row in found.items():
        print(
            f"{name:<22}{row['median']:>7.2f} s a step ({row['least']:.2f} to {row['most']:.2f}), "
            f"{row['median'] / found['none']['median']:.2f} of a step without classmates"
        )
    one = found["one"]["median"]
    added = found["two at once"]["median"] - one
    serial = found["two one after another"]["median"] - one
    share = statistics.mean(shares)
    print(
        f"the second adds {added:.2f} s at once, {added / serial:.0%} of its serial {serial:.2f} s"
    )
    print(f"distinct prefixes: {share:.0%} of the paths")
    return {"added_share": added / serial, "unique_share": share}


def main() -> None:
    """Measure, print, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--base", type=pathlib.Path, help="folder of the policy")
    parser.add_argument("--peers", type=pathlib.Path, nargs=2, help="folders of two models")
    parser.add_argument("--made-steps", type=int, default=300)
    parser.add_argument("--runner", choices=("thread", "ray"), default="thread")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--problems", type=int, default=32, help="per step")
    parser.add_argument("--paths", type=int, default=8, help="per problem")
    parser.add_argument("--repeats", type=int, default=2)
    add_output(parser)
    arguments = parser.parse_args()
    execution = ExecutionParams(runner=arguments.runner)
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        base = arguments.base or make_model(root / "base", seed=1, steps=arguments.made_steps)
        folders = arguments.peers or [
            make_model(root / f"peer-{seed}", seed=seed, steps=arguments.made_steps)
            for seed in (2, 3)
        ]
        trainings = Trainings(
            base=base,
            root=root,
            problems=generate(CountdownParams(), seed=SEED, count=PROBLEMS),
            train=TrainParams(
                method=Method.GRPO,
                steps=arguments.steps,
                batch_size=arguments.problems,
                group_size=arguments.paths,
                warm_start_steps=0,
            ),
            # With weight 0 every way trains the same policy, so that all draw equal paths.
            classmate=ClassmateParams(
                max_new_tokens=PATH_TOKENS, timeout_s=600.0, classmate_reward_weight=0.0
            ),
        )
        params = [
            PeerParams(name=f"peer-{number}", model=str(folder))
            for number, folder in enumerate(folders)
        ]
        with running_peers(params, execution, root=root) as peers:
            found = measure(trainings, peers, repeats=arguments.repeats)
    ratios = report(found, trainings.shares)
    write_results(arguments.output, {"seconds": found, **ratios})


if __name__ == "__main__":
    main()
