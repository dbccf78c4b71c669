"""CPU seconds of this tree as ratios to another checkout: demo, sampling, training steps, start of a stage.

demo      `reasonloop run` in an empty workspace; with --profile smoke its quick form
sampling  100 prompts x 10 paths of up to 160 tokens from a Llama of 4.8M weights, embedded engine
sft       a step on 64 solutions of 20 tokens
grpo      a step on 64 prompts x 8 paths of the default policy
stage     `reasonloop stage prepare` where it is done: what every stage needs to start

Both trees run under this interpreter, in turns (A B, B A, ...), each time in fresh processes. A command's CPU
seconds are user and system time of all its processes, those of Ray included, but not of the Prefect server, of
which each tree has its own. Sampling and steps are measured within their process, after loading and a warm-up,
by the tree's own `benchmarks/lib/sampling/sides.py` and `benchmarks/lib/training/sides.py`. A ratio is the
median over the pairs; "amount" is the ratio of the tokens, 1 where both did the same work.

With --output a stopped measurement goes on where it was, and other names or more pairs are added.

    git worktree add /tmp/before b9dc180
    python -m benchmarks.baseline --against /tmp/before --only sampling sft --pairs 5 --output baseline.json
    python -m benchmarks.baseline --against /tmp/before --only demo stage --profile smoke
"""

import argparse
import functools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.processes import run_with_descendants
from benchmarks.lib.repository import REPOSITORY
from benchmarks.lib.sampling.models import SHAPES, Work, make_model, random_prompts
from benchmarks.lib.training.cases import CASES, make_models
from benchmarks.lib.training.sides import Job
from pipeline_lib.train.trainer_settings import silence_libraries

HERE, AGAINST = "here", "against"
SAMPLING, TRAINING = "benchmarks.lib.sampling.sides", "benchmarks.lib.training.sides"
PROMPTS, PATHS, MAX_NEW_TOKENS, ENDS = 100, 10, 160, 10
BOOTSTRAP_STEPS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement of one tree."""

    cpu_s: float
    """Per step, or of the whole work."""
    tokens: float = 0.0
    """Drawn or trained on; 0 where none are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A checkout and the folder of its Prefect server and workspaces."""

    root: pathlib.Path
    scratch: pathlib.Path

    def python(self, *arguments: str) -> list[str]:
        """A command that imports the packages of this tree."""
        state = f"REASONLOOP_STATE={self.scratch / 'state'}"
        home = f"PREFECT_HOME={self.scratch / 'prefect'}"
        environment = (f"PYTHONPATH={self.root}", state, home)
        return ["/usr/bin/env", "-u", "PREFECT_API_URL", *environment, sys.executable, *arguments]

    def reasonloop(self, *arguments: str) -> list[str]:
        """The command of this tree."""
        return self.python("-m", "flows.cli", *arguments)

    def cpu_s(self, *arguments: str) -> Sample:
        """CPU seconds of a command with all of its processes."""
        log = self.scratch / "commands.log"
        command = self.reasonloop(*arguments)
        return Sample(cpu_s=run_with_descendants(command, log, folder=self.root))

    def side(self, module: str, name: str, work: Mapping[str, Any]) -> dict[str, Any]:
        """What one side of a benchmark measured in a process of its own.

        Raises:
            SystemExit: the process failed.
        """
        done = subprocess.run(
            self.python("-m", module, name),
            cwd=self.root,
            input=f"{json.dumps(work)}\n\n\n",
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{self.root}: {module} {name}: {done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


@functools.cache
def make_work(folder: pathlib.Path) -> Work:
    """The prompts of ``sampling``, for a model that is saved in ``folder``."""
    shape = SHAPES["llama-4.8m"]
    end_ids = make_model(shape, folder, ends=ENDS)
    return Work(
        model=str(folder),
        prompts=random_prompts(shape, PROMPTS, str(folder), end_ids=end_ids),
        paths=PATHS,
        max_new_tokens=MAX_NEW_TOKENS,
        end_ids=end_ids,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What can be measured, by name, on models that both trees share."""

    models: pathlib.Path
    profile: str | None

    def demo(self, tree: Tree) -> Sample:
        """The main job."""
        workspace = tree.scratch / "demo"
        shutil.rmtree(workspace, ignore_errors=True)
        profile = ("--profile", self.profile) if self.profile else ()
        return tree.cpu_s("run", "--workspace", str(workspace), *profile)

    def stage(self, tree: Tree) -> Sample:
        """The start of a stage that has nothing to do."""
        workspace = tree.scratch / "stage"
        command = ("stage", "prepare", "--profile", "smoke", "--workspace", str(workspace))
        if not workspace.exists():
            tree.cpu_s(*command)
        return tree.cpu_s(*command)

    def sampling(self, tree: Tree) -> Sample:
        """A draw by the embedded engine."""
        work = make_work(self.models / "sampling")
        found = tree.side(SAMPLING, "embedded", asdict(work))
        tokens = sum(count for _, count in found["lengths"])
        return Sample(cpu_s=found["cpu_seconds"], tokens=tokens)

    def sft(self, tree: Tree) -> Sample:
        """A step of SFT."""
        return self._step(tree, "sft", "sft, ours")

    def grpo(self, tree: Tree) -> Sample:
        """A step of GRPO."""
        return self._step(tree, "countdown", "grpo, ours")

    def _step(self, tree: Tree, name: str, side: str) -> Sample:
        case = CASES[name]
        with silence_libraries():
            make_models(self.models, [case.model], bootstrap_steps=BOOTSTRAP_STEPS)
        with tempfile.TemporaryDirectory() as work:
            model = str(self.models / case.model)
            job = Job(case=case, model=model, work=work, repeats=1, threads=1)
            found = tree.side(TRAINING, side, asdict(job))
        return Sample(cpu_s=found["cpu_seconds"] / case.steps, tokens=found["tokens"] / case.steps)


Measure = Callable[[Measures, Tree], Sample]
MEASURES: dict[str, Measure] = {
    "demo": Measures.demo,
    "sampling": Measures.sampling,
    "sft": Measures.sft,
    "grpo": Measures.grpo,
    "stage": Measures.stage,
}
Pair = dict[str, dict[str, float]]
"""A sample of each tree."""


def measure_pairs(
    measure: Callable[[Tree], Sample], trees: Mapping[str, Tree], pairs: list[Pair], *, count: int
) -> Iterator[None]:
    """Extend ``pairs`` to ``count``, the order of the trees changing from pair to pair; yields after each."""
    for number in range(len(pairs), count):
        names = list(trees)[:: -1 if number % 2 else 1]
        found = {name: asdict(measure(trees[name])) for name in names}
        pairs.append({name: found[name] for name in trees})
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Medians over the pairs of one name."""

    name: str
    pairs: int
    here_s: float
    against_s: float
    ratio: float
    low: float
    high: float
    """Smallest and largest ratio of a pair."""
    amount: float | None
    """Ratio of the tokens; None where none are counted."""


def compare(name: str, pairs: Sequence[Pair]) -> Comparison:
    """The medians of one name."""
    ratios = [pair[HERE]["cpu_s"] / pair[AGAINST]["cpu_s"] for pair in pairs]
    tokens = [sum(pair[tree]["tokens"] for pair in pairs) for tree in (HERE, AGAINST)]
    return Comparison(
        name=name,
        pairs=len(pairs),
        here_s=median(pair[HERE]["cpu_s"] for pair in pairs),
        against_s=median(pair[AGAINST]["cpu_s"] for pair in pairs),
        ratio=median(ratios),
        low=min(ratios),
        high=max(ratios),
        amount=tokens[0] / tokens[1] if tokens[1] else None,
    )


def show(comparisons: Sequence[Comparison]) -> None:
    """Print the table."""
    table = Table("", "pairs", "CPU s here", "against", "ratio", "of pairs", "amount", box=None)
    for one in comparisons:
        table.add_row(
            one.name,
            str(one.pairs),
            f"{one.here_s:.3f}",
            f"{one.against_s:.3f}",
            f"{one.ratio:.3f}",
            f"{one.low:.3f} to {one.high:.3f}",
            "" if one.amount is None else f"{one.amount:.3f}",
        )
    Console().print(table)


@contextmanager
def server(tree: Tree) -> Iterator[None]:
    """The tree's Prefect server, started before the block and stopped after it."""
    tree.scratch.mkdir(parents=True, exist_ok=True)
    with (tree.scratch / "server.log").open("ab") as log:
        try:
            subprocess.run(
                tree.reasonloop("server", "start"), cwd=tree.root, stdout=log, check=True
            )
            yield
        finally:
            subprocess.run(tree.reasonloop("server", "stop"), cwd=tree.root, stdout=log, check=True)


def earlier_pairs(
    output: pathlib.Path | None, settings: Mapping[str, Any]
) -> dict[str, list[Pair]]:
    """The pairs of an earlier call by name.

    Raises:
        SystemExit: they were measured with other settings.
    """
    if output is None or not output.exists():
        return {}
    content = json.loads(output.read_text("utf-8"))
    if content["settings"] != settings:
        raise SystemExit(
            f"{output}: measured with {content['settings']}, not {settings}; name another file"
        )
    pairs: dict[str, list[Pair]] = content["pairs"]
    return pairs


def commit(root: pathlib.Path) -> str:
    """The commit of a checkout, and whether files differ from it."""
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Measure the pairs, print the table, write JSON after each pair."""
    parser = make_parser(__doc__)
    parser.add_argument("--against", type=pathlib.Path, required=True, help="the other checkout")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--profile", help="profile of the demo; default: none, as `make demo`")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder to keep and reuse models")
    add_output(parser)
    measure_all(parser.parse_args())


def measure_all(options: argparse.Namespace) -> None:
    """Measure what the command line names."""
    roots = {HERE: REPOSITORY, AGAINST: options.against.resolve()}
    settings = {name: commit(root) for name, root in roots.items()} | {"profile": options.profile}
    pairs = earlier_pairs(options.output, settings)
    with ExitStack() as stack:
        folder = options.scratch or stack.enter_context(tempfile.TemporaryDirectory())
        scratch = pathlib.Path(folder).resolve()
        trees = {name: Tree(root=root, scratch=scratch / name) for name, root in roots.items()}
        for tree in trees.values() if {"demo", "stage"} & {*options.only} else ():
            stack.enter_context(server(tree))
        measures = Measures(models=scratch / "models", profile=options.profile)
        for name in options.only:
            measured = pairs.setdefault(name, [])
            step = MEASURES[name].__get__(measures)
            for _ in measure_pairs(step, trees, measured, count=options.pairs):
                write_results(options.output, {"settings": settings, "pairs": pairs})
    comparisons = [compare(name, found) for name, found in pairs.items() if found]
    print(f"{settings[HERE]} against {settings[AGAINST]}; demo: profile {options.profile}")
    show(comparisons)
    content = {"settings": settings, "pairs": pairs, "ratios": [asdict(one) for one in comparisons]}
    write_results(options.output, content)


if __name__ == "__main__":
    main()
