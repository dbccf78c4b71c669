r"""Branches drawn by the policy in training against branches of a cache, from one start, on Countdown or on locks.

With --from, a workspace of `reasonloop pacore run --seeds`, the start of a seed is its synthesizer of locks, so RL goes
on from a training that has converged; rounds 16,1 and 32,4,1 are drawn, also with a greedy last call. Otherwise each
seed makes a base policy, a cache of its paths for the train problems, and by SFT on it a synthesizer, the start.

From the start one training takes the references of the cache and one draws them anew at every step: equal steps, prompts
and syntheses a step, so about equally many trained tokens. `pacore evaluate` draws rounds 4,1 (of locks 16,1 and 32,4,1) of all three on the test
problems with the same seeds; differences are paired over problems. Each command is a process with one thread, and
finished ones are kept: run the same command to resume. About 12 CPU minutes a seed.

    OMP_NUM_THREADS=1 python -m benchmarks.pacore_branches --root /tmp/branches --output branches.json
    reasonloop pacore run --workspace /tmp/locks --seeds 7,8,9
    python -m benchmarks.pacore_branches --root /tmp/rl --from /tmp/locks --method grpo --output rl.json
    python -m benchmarks.pacore_branches --root /tmp/tiny --seeds 7 --sft-steps 20 --steps 4 --set \
        prepare.countdown.num_numbers=2 prepare.countdown.target_low=1 prepare.train_problems=60 \
        prepare.test_problems=20 prepare.bootstrap_problems=120 bootstrap.steps=200
"""

import argparse
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.commands import run_once, usage_file
from benchmarks.lib.seeds import mean_of, over_seeds, points
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.store import shards
from pipeline_lib.store.files import read_json
from pipeline_lib.store.manifests import read_manifest
from pipeline_lib.study.statistics.intervals import paired_difference
from pipeline_lib.train.weights.policies import tokens_of

MODELS = ("start", "cached", "drawn")
PAIRS = (("drawn", "cached"), ("cached", "start"), ("drawn", "start"))
_FEW: Mapping[str, object] = {"pacore.evaluate.early_stop": "null", "pacore.evaluate.rsa": "null"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A data set with the params and the measures of its comparison."""

    measures: tuple[str, ...]
    params: Mapping[str, object]
    options: tuple[str, ...] = ()
    """Of the commands that read problems."""
    paths: int = 8
    """Of a problem in the cache."""


COUNTDOWN = Task(
    measures=("rounds 4,1", "one path"),
    params={
        **_FEW,
        "prepare.train_problems": 2000,
        "pacore.max_new_tokens": 48,
        "pacore.evaluate.widths": "[[4]]",
        "pacore.evaluate.greedy": "false",
        "pacore.evaluate.other_references": "false",
        "pacore.evaluate.plain_paths": 12,
    },
)
LOCKS = Task(
    measures=(
        *("rounds 16,1", "rounds 16,1, greedy last call"),
        *("rounds 32,4,1", "rounds 32,4,1, greedy last call", "one path"),
    ),
    params={
        **_FEW,
        "prepare.train_problems": 1000,
        "prepare.test_problems": 300,
        "pacore.episodes.references": "[4, 16]",
        "pacore.evaluate.widths": "[[16], [32, 4]]",
    },
    options=("--task", "locks"),
    # Few paths are right as a whole, and a problem without any is left out.
    paths=40,
)
ONLINE: Mapping[str, object] = {
    "pacore.train.lr": 1e-4,
    "pacore.train.batch_size": 32,
    "pacore.train.group_size": 8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """The models and the evaluation of one seed."""

    number: int
    folder: pathlib.Path
    arguments: argparse.Namespace

    @property
    def task(self) -> Task:
        """Of a given start locks, else Countdown."""
        return COUNTDOWN if self.arguments.start is None else LOCKS

    def model(self, name: str) -> pathlib.Path:
        """Folder of one of `MODELS`."""
        given: pathlib.Path | None = self.arguments.start
        if name == "start" and given is not None:
            return given.resolve() / f"seed-{self.number}" / "models" / "pacore"
        return self.folder / name

    def run(self) -> dict[str, Any]:
        """Run what is missing; figures by model, and differences by pair and measure."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.arguments.start is None:
            chat = self.folder / "chat"
            for stage in ("prepare", "bootstrap"):
                self._once(stage, "stage", stage, "--workspace", self.folder)
            self._once("chat", "pacore", "base", self.folder / "models" / "base", "--output", chat)
            self._draw_cache(chat)
            self._train("start", chat, {"pacore.train.steps": self.arguments.sft_steps})
        else:
            self._draw_cache(self.model("start"))
        online = {
            **ONLINE,
            "pacore.train.method": self.arguments.method,
            "pacore.train.steps": self.arguments.steps,
        }
        for branches in ("cached", "drawn"):
            self._train(branches, self.model("start"), online | {"pacore.train.branches": branches})
        report = ("--output", self.folder / "report", *self.task.options)
        self._once("report", "pacore", "evaluate", *map(self.model, MODELS), *report)
        return {"models": self._models(), "differences": self._differences()}

    def _draw_cache(self, model: pathlib.Path) -> None:
        drawn = ("--split", "train", "--num-paths", self.task.paths, *self.task.options)
        self._once("cache", "sample", model, "--output", self.folder / "cache.jsonl", *drawn)

    def _train(self, name: str, base: pathlib.Path, options: Mapping[str, object]) -> None:
        output = ("--output", self.folder / name, *self.task.options)
        cache = self.folder / "cache.jsonl"
        self._once(name, "pacore", "train", base, cache, *output, options=options)

    def _once(
        self, name: str, *command: object, options: Mapping[str, object] | None = None
    ) -> None:
        params = {"seed": self.number, **self.task.params, **(options or {})}
        params |= dict(one.split("=", 1) for one in self.arguments.set)
        if name == "chat" and not usage_file(self.folder, name).exists():
            # It takes no params, and refuses a folder that a killed command has left.
            shutil.rmtree(self.folder / "chat", ignore_errors=True)
        run_once(self.folder, name, *command, params={} if name == "chat" else params)

    def _values(self) -> dict[tuple[str, str], dict[str, float]]:
        """Accuracy by problem, of each measure and model."""
        found: dict[tuple[str, str], dict[str, float]] = {}
        arms = {
            f"{measure} model={self.model(one)}": (measure, one)
            for measure in self.task.measures
            for one in MODELS
        }
        for row in shards.iter_table(self.folder / "report" / "values"):
            if row["arm"] in arms and row["measure"] == "accuracy":
                found.setdefault(arms[row["arm"]], {})[row["problem_id"]] = row["value"]
        return found

    def _models(self) -> dict[str, Any]:
        values, found = self._values(), {}
        for model in MODELS:
            tokens = tokens_of(read_manifest(self.model(model)))
            found[model] = {
                **{m: float(np.mean(list(values[m, model].values()))) for m in self.task.measures},
                "trained_tokens": tokens.trained,
                "drawn_tokens": tokens.drawn,
                **self._used(model),
            }
        return found

    def _used(self, model: str) -> dict[str, Any]:
        """Seconds of a training; none of a start that was given."""
        used = usage_file(self.folder, model)
        return read_json(used) if used.exists() else {"cpu_s": 0.0, "wall_s": 0.0}

    def _differences(self) -> dict[str, dict[str, float]]:
        values, found = self._values(), {}
        for arm, reference in PAIRS:
            for measure in self.task.measures:
                of_arm, of_reference = values[measure, arm], values[measure, reference]
                names = sorted(of_arm)
                one = paired_difference(
                    np.array([of_reference[name] for name in names]),
                    np.array([of_arm[name] for name in names]),
                    EvaluateParams(),
                    seed=self.number,
                )
                interval = one.interval
                found[f"{arm} - {reference}, {measure}"] = {
                    "value": interval.value,
                    "low": interval.low,
                    "high": interval.high,
                }
        return found


def main() -> None:
    """Run what is missing, then print models and differences."""
    arguments = _arguments()
    root = arguments.root.resolve()
    found = {}
    for number in arguments.seeds:
        one = Seed(number=number, folder=root / f"seed-{number}", arguments=arguments)
        found[str(number)] = one.run()
        print(f"seed {number}: {found[str(number)]['differences']}", flush=True)
    write_results(arguments.output, found)
    console = Console(width=150)
    measures = (COUNTDOWN if arguments.start is None else LOCKS).measures
    console.print(models_table([*found.values()], measures))
    console.print(differences_table([*found.values()]))


def _arguments() -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--root", type=pathlib.Path, required=True, help="folder for all models")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    parser.add_argument(
        "--from",
        dest="start",
        type=pathlib.Path,
        metavar="WORKSPACE",
        help="of a finished `pacore run --seeds`: its synthesizers are the starts",
    )
    parser.add_argument("--method", choices=["ppo", "grpo", "rloo"], default="ppo")
    parser.add_argument("--sft-steps", type=int, default=400, help="of the start, 32 rows each")
    parser.add_argument("--steps", type=int, default=100, help="of RL, 32 x 8 syntheses each")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of all commands")
    add_output(parser)
    return parser.parse_args()


def models_table(found: Sequence[Mapping[str, Any]], measures: Sequence[str]) -> Table:
    """Each seed's accuracy in percent, tokens and seconds of each training."""
    shown = Table(title="Of each seed: percent right, thousands of tokens, seconds of training")
    names = (*measures, "trained_tokens", "drawn_tokens", "cpu_s", "wall_s")
    for column in ("model", *names):
        shown.add_column(column)
    for model in MODELS:
        rows = [one["models"][model] for one in found]
        shown.add_row(
            model,
            *(" / ".join(f"{100 * row[name]:.1f}" for row in rows) for name in measures),
            *(
                " / ".join(f"{row[name] / 1000:.0f}" for row in rows)
                for name in ("trained_tokens", "drawn_tokens")
            ),
            *(" / ".join(f"{row[name]:.0f}" for row in rows) for name in ("cpu_s", "wall_s")),
        )
    return shown


def differences_table(found: Sequence[Mapping[str, Any]]) -> Table:
    """In points: each seed, then their mean with 95 % intervals over problems and over seeds."""
    shown = Table(title="Differences in points, paired over problems")
    for column in ("", "each seed", "mean (95 % over problems)", "(95 % over seeds)"):
        shown.add_column(column)
    for name in found[0]["differences"]:
        each = [one["differences"][name] for one in found]
        spread = over_seeds([one["value"] for one in each])
        shown.add_row(
            name,
            ", ".join(points(one) for one in each),
            points(mean_of(each)),
            points(spread) if spread else "-",
        )
    return shown


if __name__ == "__main__":
    main()
