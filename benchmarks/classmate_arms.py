"""Trainings with peers beside their controls: plain training and a hashed bonus, over several seeds.

Each seed has one base, one set of peers and one set of problems; its trainings have equal steps and seeds.
The commands of reasonloop keep what is finished under the same settings: run the same command to resume.

    python -m benchmarks.classmate_arms --root /tmp/arms --jobs 2 --output arms.json
    python -m benchmarks.classmate_arms --root /tmp/three --profile classmate-three --arms plain hashed w0.5
"""

import argparse
import json
import pathlib
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.processes import run_measured
from benchmarks.lib.seeds import mean_of, over_seeds, points
from pipeline_lib.study.study import ALL, Study, read_study, study_row
from pipeline_lib.systems.classmate.peer import HELD_OUT, TRAINING
from pipeline_lib.systems.classmate.study import RIGHT, base_name

PEERS = "classmate.classmate_model_name_or_path_list"
WEIGHT = "classmate.classmate_reward_weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way of training; without ``peers`` it is plain."""

    peers: tuple[str, ...] = ("small", "digits")
    """Folders beside the base's."""
    overrides: Mapping[str, object]


ARMS: Mapping[str, Arm] = {
    "plain": Arm(peers=(), overrides={WEIGHT: 0}),
    "hashed": Arm(overrides={WEIGHT: 0.5, "classmate.bonus": "hashed"}),
    "gate": Arm(overrides={WEIGHT: 0.5, "classmate.gate": "when_right"}),
    "max": Arm(overrides={WEIGHT: 0.5, "classmate.aggregation": "max"}),
    "one": Arm(peers=("small",), overrides={WEIGHT: 0.5}),
    "copy": Arm(peers=("../base",), overrides={WEIGHT: 0.5}),
    "w0.1": Arm(overrides={WEIGHT: 0.1}),
    "w0.5": Arm(overrides={WEIGHT: 0.5}),
}
CONTROLS = ("plain", "hashed")
"""Arms that the others are compared with, beside the base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """All trainings with one profile."""

    root: pathlib.Path
    settings: Sequence[str]
    """Options of every command."""
    arms: Sequence[str]

    def run_command(self, seed: int, name: str, *words: str) -> None:
        """Run a command of reasonloop with the settings, in the folder of a seed, and print its CPU time."""
        folder = self.root / f"seed-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "flows.cli",
            *words,
            *self.settings,
            "--set",
            f"seed={seed}",
        ]
        used = run_measured(command, folder / "log.txt")
        print(f"seed {seed}: {name}: {used.cpu_s:.0f} CPU s, {used.wall_s:.0f} s", flush=True)

    def models(self, seed: int) -> pathlib.Path:
        """The folder of the base and its peers."""
        return self.root / f"seed-{seed}" / "models" / "classmate"

    def make_base(self, seed: int) -> None:
        """Make base and peers of a seed."""
        workspace = self.root / f"seed-{seed}"
        self.run_command(
            seed, "base and peers", "stage", "classmate-peers", "--workspace", str(workspace)
        )

    def train(self, seed: int, name: str) -> None:
        """Train one arm."""
        arm, output = ARMS[name], self.root / f"seed-{seed}" / name
        options = {PEERS: self._list(seed, arm.peers), **arm.overrides}
        base = str(self.models(seed) / "base")
        self.run_command(
            seed, name, "classmate", "train", base, "--output", str(output), *_set(options)
        )

    def evaluate(self, seed: int) -> Study:
        """Evaluate base and arms of a seed, with the training's peers and the held-out one."""
        folder = self.root / f"seed-{seed}"
        policies = {
            "base": self.models(seed) / "base",
            **{name: folder / name for name in self.arms},
        }
        output = folder / "evaluation"
        options = {
            PEERS: self._list(seed, ARMS["w0.5"].peers),
            "classmate.held_out": self._list(seed, ("other",)),
        }
        named = [f"{name}={path}" for name, path in policies.items()]
        controls = [name for name in CONTROLS if name in self.arms[:-1]]
        self.run_command(
            seed,
            "evaluation",
            *("classmate", "evaluate", *named),
            *(part for name in controls for part in ("--control", name)),
            *("--output", str(output), *_set(options)),
        )
        return read_study(output / "metrics.json")

    def _list(self, seed: int, peers: Sequence[str]) -> str:
        folder = self.models(seed) / "peers"
        rows = [
            {"name": name.rpartition("/")[2], "model": str((folder / name).resolve())}
            for name in peers
        ]
        return json.dumps(rows)


def main() -> None:
    """Run what is missing, then print the differences from the controls."""
    arguments = _arguments()
    experiment = Experiment(
        root=arguments.root.resolve(),
        settings=[
            *(("--profile", arguments.profile) if arguments.profile else ()),
            *(part for setting in arguments.set for part in ("--set", setting)),
        ],
        arms=[name for name in ARMS if name in arguments.arms],
    )
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(experiment.make_base, arguments.seeds))
        jobs = [(seed, name) for seed in arguments.seeds for name in experiment.arms]
        list(pool.map(lambda job: experiment.train(*job), jobs))
        found = list(pool.map(experiment.evaluate, arguments.seeds))
    results = dict(zip(map(str, arguments.seeds), map(study_row, found), strict=True))
    write_results(arguments.output, results)
    console = Console(width=170)
    console.print(values_table(found, ["base", *experiment.arms]))
    for control in ["base", *(name for name in CONTROLS if name in experiment.arms)]:
        arms = [name for name in experiment.arms if name != control]
        if control != "base":
            arms = [name for name in arms if name != "plain"]
        console.print(differences_table(found, arms, control))


def _arguments() -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--root", type=pathlib.Path, required=True, help="folder for all models")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    parser.add_argument(
        "--arms", nargs="+", choices=list(ARMS), default=["plain", "hashed", "w0.1", "w0.5"]
    )
    parser.add_argument("--profile", help="of all commands")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of all commands")
    parser.add_argument("--jobs", type=int, default=1, help="commands at once")
    add_output(parser)
    return parser.parse_args()


def _set(options: Mapping[str, object]) -> Iterator[str]:
    for key, value in options.items():
        yield from ("--set", f"{key}={value}")


def values_table(found: Sequence[Study], policies: Sequence[str]) -> Table:
    """Means over the seeds, in percent."""
    shown = Table(title=f"Mean of {len(found)} seeds, in percent")
    peers = _peers(found[0])
    columns = ["pass@1", "pass@8", *(f"{peer}, right paths" for peer in peers), "leaks", "tokens"]
    for column in ("policy", *columns):
        shown.add_column(column, justify="left" if column == "policy" else "right")
    for arm in map(base_name, policies):
        rows = [each for study in found for each in study.compute["prefixes"]]
        leaks = statistics.fmean(row["leak_rate"] for row in rows if row["arm"] == arm)
        costs = [study.point(arm, "pass@1").cost for study in found]
        shown.add_row(
            arm,
            _percent(found, arm, "pass@1"),
            _percent(found, arm, "pass@8"),
            *(_percent(found, f"{arm} peer={peer}", *asked) for peer, asked in peers.items()),
            f"{100 * leaks:.1f}",
            f"{statistics.fmean(cost.drawn for cost in costs if cost is not None):.1f}",
        )
    return shown


def _peers(study: Study) -> dict[str, tuple[str, str]]:
    """Measure and subset of each peer: success over right paths and all shares."""
    return {
        peer: (HELD_OUT if one["held_out"] else TRAINING, RIGHT)
        for peer, one in study.compute["peers"].items()
    }


def _percent(found: Sequence[Study], arm: str, measure: str, subset: str = ALL) -> str:
    """Their mean; a dash where a seed has none, as without any right path."""
    try:
        values = [study.point(arm, measure, subset=subset).value for study in found]
    except KeyError:
        return "-"
    return f"{100 * statistics.fmean(values):.1f}"


def differences_table(found: Sequence[Study], arms: Sequence[str], control: str) -> Table:
    """Arm minus control by measure: each seed, then their mean with two 95 % intervals.

    Over problems: for these trainings. Over seeds: for other trainings with other problems, by Student's t.
    """
    shown = Table(title=f"Minus {control}, in points")
    for column in ("arm", "measure", "each seed", "mean (95 % over problems)", "(95 % over seeds)"):
        shown.add_column(column)
    for arm in arms:
        rows = [_compared(each, arm, control) for each in found]
        for measure in rows[0]:
            if not all(measure in row for row in rows):
                continue
            each = [row[measure] for row in rows]
            values = [one["value"] for one in each]
            shown.add_row(
                arm,
                measure,
                ", ".join(f"{100 * value:+.1f}" for value in values),
                points(mean_of(each)),
                points(spread) if (spread := over_seeds(values)) else "-",
            )
        shown.add_section()
    return shown


def _compared(study: Study, arm: str, control: str) -> dict[str, dict[str, float]]:
    """Differences by measure; success is over right paths and all shares, and missing where there are none."""
    chosen = {
        "pass@1": ("", "pass@1", ALL),
        "pass@8": ("", "pass@8", ALL),
        **{
            f"success of {peer}{' (held out)' * (asked[0] == HELD_OUT)}": (f" peer={peer}", *asked)
            for peer, asked in _peers(study).items()
        },
    }
    found = {}
    for one in study.differences:
        for name, (peer, *asked) in chosen.items():
            pair = [f"{base_name(each)}{peer}" for each in (arm, control)]
            if [one.measure, one.subset] == asked and {one.arm, one.reference} == {*pair}:
                bounds = (one.value, one.low, one.high)
                value, low, high = (
                    bounds if one.arm == pair[0] else (-one.value, -one.high, -one.low)
                )
                found[name] = {"value": value, "low": low, "high": high}
    return {name: found[name] for name in chosen if name in found}


if __name__ == "__main__":
    main()
