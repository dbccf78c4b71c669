"""Chains for `reasonloop classmate probe`, and what its output says about right and wrong ones.

``countdown`` makes problems, two peers and chains in which one step is wrong, and probes them. ``recorded`` takes one
answer to each problem from a file of labelled answers, of its models in turn; ``drawn`` takes the first path of each
problem from a file of `reasonloop sample`. ``curves`` prints the curves over right and over wrong chains apart.

    python -m benchmarks.classmate_chains countdown --root probe --output countdown.json
    python -m benchmarks.classmate_chains recorded gsm8k_labelled.jsonl --chains 100 > chains.jsonl
    python -m benchmarks.classmate_chains drawn paths.jsonl --chains 80 > chains.jsonl
    python -m benchmarks.classmate_chains curves chains.jsonl probe.jsonl
"""

import argparse
import itertools
import json
import pathlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.processes import run_measured
from flows.cli.tables import print_table
from flows.run.terminal import console
from pipeline_lib.kinds.countdown import CountdownGold, reachable, solutions
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import BootstrapParams, CountdownParams, VerifyParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.records import Problem, Row
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.seeding import child_random
from pipeline_lib.store.files import read_json_lines, write_json_lines
from pipeline_lib.study.pages.page import study_tables
from pipeline_lib.systems.classmate.probe import Probed, read_chains
from pipeline_lib.systems.classmate.probe_study import probe_study
from pipeline_lib.train.bootstrap import make_base_policy
from pipeline_lib.verify.dispatch import Item, open_verifier

SEED = 7
STEP = "\n"
RANGES = CountdownParams(high=15, target_high=60)
PEERS: Mapping[str, BootstrapParams] = {
    "small": BootstrapParams(hidden_size=64, num_layers=3, num_heads=4, steps=800, lr=2e-3),
    "wide": BootstrapParams(hidden_size=96, num_layers=2, num_heads=4, steps=600, lr=2e-3),
}
TAUGHT_PROBLEMS = 1500
"""Whose solutions the peers are trained on; none is a problem of a chain."""


def wrong_chain(problem: Problem, number: int) -> Row:
    """A chain of two steps of which one is wrong, as a line for the probe.

    Even numbers have a wrong first step, odd ones a wrong second. In every second pair, if the problem has one, it is a
    true step from which the target cannot be reached; in the others its result is changed by 1 or 2.
    """
    assert isinstance(problem.gold, CountdownGold)
    gold, place = problem.gold, number % 2
    random = child_random(SEED, "wrong step", problem.id)
    right = [text.split(STEP) for text in solutions(gold.numbers, gold.target)]
    true_steps = [
        steps
        for target in sorted(reachable(gold.numbers) - {gold.target})
        for text in solutions(gold.numbers, target)
        for steps in [text.split(STEP)]
        # A wrong first step leads no further; before a wrong second step the first is right.
        if (steps[0] in {first for first, _ in right}) == bool(place)
    ]
    if number // 2 % 2 and true_steps:
        steps = random.choice(true_steps)
    else:
        steps = list(random.choice(right))
        left, _, result = steps[place].partition("=")
        steps[place] = f"{left}={int(result) + random.choice((1, 2))}"
    return {
        "id": problem.id,
        "kind": problem.kind.name,
        "question": problem.question,
        "text": STEP.join(steps),
        "wrong_step": place + 1,
        **problem.kind.write_line(gold),
    }


def make_peers(root: pathlib.Path, problems: Sequence[Problem]) -> list[str]:
    """Train the peers on all solutions of ``problems``; the options of the probe that name them."""
    rows = solution_rows(problems, None)
    for number, (name, params) in enumerate(PEERS.items()):
        folder = root / "models" / name
        if not folder.exists():
            make_base_policy(rows, folder, params=params, seed=SEED + number, key=name)
    return [word for name in PEERS for word in ("--classmate", f"{name}={root / 'models' / name}")]


def probe_countdown(root: pathlib.Path, *, chains: int) -> dict[str, Any]:
    """Make problems, peers and chains, probe the chains, and count where success falls."""
    root.mkdir(parents=True, exist_ok=True)
    problems = generate(RANGES, seed=SEED, count=chains + TAUGHT_PROBLEMS)
    lines = [wrong_chain(problem, number) for number, problem in enumerate(problems[:chains])]
    source, output = root / "chains.jsonl", root / "probe.jsonl"
    write_json_lines(source, lines)
    command = [sys.executable, "-m", "flows.cli", "classmate", "probe", str(source)]
    command += make_peers(root, problems[chains:])
    command += ["--samples", "16", "--shuffled", "--max-new-tokens", "24"]
    command += ["--output", str(output), "--html", str(root / "probe.html")]
    used = run_measured(command, root / "log.txt")
    print(f"probe: {used.cpu_s:.0f} CPU s; its tables are in {root / 'log.txt'}")
    probed = list(read_json_lines(output))
    return {name: falls(lines, [row["peers"][name] for row in probed]) for name in PEERS}


def falls(lines: Sequence[Row], probed: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Counts of chains by what one peer's success does at the wrong step.

    Args:
        lines: the chains.
        probed: this peer's figures of each.
    """
    counts = Counter(chains=len(lines))
    for line, row in zip(lines, probed, strict=True):
        wrong = line["wrong_step"]
        success, lift = row["success"], row["lift"]
        others = [lift[step] for step in range(1, len(success)) if step != wrong]
        counts["any success"] += max(success) > 0
        counts["falls at the wrong step"] += lift[wrong] < 0
        counts["no step falls further"] += lift[wrong] < 0 and lift[wrong] <= min(others)
        counts["falls at a right step"] += wrong == 2 and min(others) < 0
        counts["right first step"] += wrong == 2
        counts["success before the wrong step"] += success[wrong - 1] > 0
        counts["success after it"] += max(success[wrong:]) > 0
    return dict(counts)


def recorded_chains(source: pathlib.Path, *, chains: int) -> Iterator[Row]:
    """One answer to each of the first problems, of the models of the file in turn."""
    answers: dict[str, list[Row]] = {}
    for row in read_json_lines(source):
        answers.setdefault(row["problem_id"], []).append(row)
    for number, found in enumerate(itertools.islice(answers.values(), chains)):
        row = found[number % len(found)]
        yield row | {"id": f"{row['problem_id']} {row.get('model', '')}".strip()}


def drawn_chains(source: pathlib.Path, *, chains: int) -> Iterator[Row]:
    """The first path of each problem, if it has at least two steps."""
    seen: set[str] = set()
    for row in read_json_lines(source):
        if row["problem_id"] in seen:
            continue
        seen.add(row["problem_id"])
        if len([line for line in row["text"].split(STEP) if line.strip()]) >= 2:
            chains -= 1
            yield row
        if not chains:
            return


def by_verdict(source: pathlib.Path, output: pathlib.Path) -> dict[str, Probed]:
    """The chains of a probe: all, right and wrong ones, by the publisher's label, else by the strict verdict.

    A chain that was not judged is among all alone.
    """
    chains = read_chains(source, step=STEP)
    labels = [row.get("label") for row in read_json_lines(source)]
    with open_verifier(VerifyParams()) as verifier:
        verdicts = verifier.judge(
            [Item(gold=chain.problem.gold, text="".join(chain.steps)) for chain in chains]
        )
    rights = [
        verdict.strict if label is None else label
        for label, verdict in zip(labels, verdicts, strict=True)
    ]
    rows = [*read_json_lines(output)]
    found = {"all": Probed(chains=chains, rows=rows)}
    for name, wanted in (("right", True), ("wrong", False)):
        places = [place for place, right in enumerate(rights) if right is wanted]
        found[name] = Probed(
            chains=[chains[place] for place in places], rows=[rows[place] for place in places]
        )
    return found


def print_curves(source: pathlib.Path, output: pathlib.Path) -> None:
    """Print the curves over all, right and wrong chains."""
    console.width = 150
    for name, probed in by_verdict(source, output).items():
        console.print(f"{len(probed.chains)} chains: {name}")
        if probed.chains:
            for table in study_tables(probe_study(probed, EvaluateParams(), seed=SEED)):
                print_table(table)


def main() -> None:
    """Run the named part."""
    parser = make_parser(__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    countdown = parts.add_parser("countdown")
    countdown.add_argument("--root", type=pathlib.Path, required=True, help="folder for all files")
    countdown.add_argument("--chains", type=int, default=100)
    add_output(countdown)
    for name in ("recorded", "drawn"):
        part = parts.add_parser(name)
        part.add_argument("source", type=pathlib.Path)
        part.add_argument("--chains", type=int, default=100)
    curves = parts.add_parser("curves")
    curves.add_argument("source", type=pathlib.Path, help="the chains")
    curves.add_argument("probe", type=pathlib.Path, help="the output of the probe")
    _run(parser.parse_args())


def _run(arguments: argparse.Namespace) -> None:
    if arguments.part == "countdown":
        found = probe_countdown(arguments.root.resolve(), chains=arguments.chains)
        for name, counts in found.items():
            print(f"{name}: " + ", ".join(f"{what} {count}" for what, count in counts.items()))
        write_results(arguments.output, found)
    elif arguments.part == "curves":
        print_curves(arguments.source, arguments.probe)
    else:
        make = recorded_chains if arguments.part == "recorded" else drawn_chains
        for line in make(arguments.source, chains=arguments.chains):
            print(json.dumps(line))


if __name__ == "__main__":
    main()
