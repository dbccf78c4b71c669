r"""Gain of every training method over an equal-compute control, from the same base policy.

Each seed has one base policy, one set of training problems and one set of stored paths. SFT and DPO
train on the stored paths; GRPO with its variants, RLOO and PPO sample the same number of paths
online. The control trains the base on its own worked solutions, with the token budget of SFT, which
is the largest of all methods. Settings were chosen on seed 101, which is not among the defaults.
Each stage is a separate process, so seconds and peak memory are those of training alone. Finished
trainings are kept: run the same command to resume.

    python -m benchmarks.methods --root /tmp/methods --jobs 2
    python -m benchmarks.methods --root /tmp/methods --seeds 7 --methods grpo ppo
    python -m benchmarks.methods --root /tmp/methods \
        --methods sft_312 dpo_156 grpo grpo_33 stored_grpo stored_grpo_3
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.lib.command_line import make_parser
from benchmarks.lib.processes import Usage, run_measured
from benchmarks.lib.seeds import mean_of, points

Overrides = Mapping[str, object]
Difference = dict[str, float]

SHARED: Overrides = {
    "execution.runner": "thread",
    "execution.workers": 1,
    "rounds": 1,
    "prepare.train_problems": 5000,
    "sample.num_paths": 4,
    "sample.keep_tokens": True,
}
STORED: Overrides = {"train.steps": 600, "train.batch_size": 64}
ONLINE: Overrides = {
    "train.warm_start_steps": 0,
    "train.batch_size": 64,
    "train.group_size": 8,
    # 64 x 8 x 39 = 19,968 paths; the stored ones are 20,000.
    "train.steps": 39,
    "train.lr": 1e-4,
    "train.entropy_coef": 0.01,
}


def variant(name: str, **more: object) -> Overrides:
    """Overrides for GRPO with a variant of its loss."""
    return {**ONLINE, "train.method": "grpo", "train.variant": name, **more}


FROM_STORED: Overrides = {
    **ONLINE,
    "train.method": "grpo",
    "train.rollouts": "stored",
    # 64 x 4 x 78 = 19,968 paths, as of ONLINE; each is one of the 20,000 stored ones.
    "train.group_size": 4,
    "train.steps": 78,
}
METHODS: Mapping[str, Overrides] = {
    "sft": {**STORED, "train.method": "sft", "train.lr": 2e-3},
    "dpo": {**STORED, "train.method": "dpo", "train.lr": 1e-5, "train.steps": 200},
    "grpo": variant("grpo"),
    # As many drawn and trained paths together as stored_grpo, whose stored paths were drawn, too.
    "grpo_33": variant("grpo", **{"train.steps": 33}),
    "stored_grpo": FROM_STORED,
    "stored_grpo_3": {**FROM_STORED, "train.steps": 3 * 78},
    # As many trained paths as grpo.
    "sft_312": {**STORED, "train.method": "sft", "train.lr": 2e-3, "train.steps": 312},
    "dpo_156": {**STORED, "train.method": "dpo", "train.lr": 1e-5, "train.steps": 156},
    "dr_grpo": variant("dr_grpo"),
    "dapo": variant("dapo"),
    "gspo": variant("gspo"),
    "cispo": variant("cispo"),
    "rloo": {**ONLINE, "train.method": "rloo", "train.entropy_coef": 0.0},
    "ppo": {
        **ONLINE,
        "train.method": "ppo",
        "train.ppo.minibatches": 4,
        "train.micro_batch_size": 128,
        "train.ppo.value_lr": 3e-3,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One method on one seed."""

    root: pathlib.Path
    seed: int
    method: str

    @property
    def result(self) -> pathlib.Path:
        """File of the results; the job is finished if it exists."""
        return self.root / "results" / f"{self.seed}-{self.method}.json"


def main() -> None:
    """Run the missing jobs, then print the table of all."""
    arguments = _arguments()
    root = arguments.root.resolve()
    (root / "results").mkdir(parents=True, exist_ok=True)
    jobs = [Job(root=root, seed=s, method=m) for s in arguments.seeds for m in arguments.methods]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(lambda seed: prepare_base(root, seed), arguments.seeds))
        open_jobs = [job for job in jobs if not job.result.exists()]
        running = {pool.submit(train_and_evaluate, job): job for job in open_jobs}
        failed = [str(each.exception()) for each in as_completed(running) if each.exception()]
    if failed:
        sys.exit("\n".join(failed))
    found = {(job.method, job.seed): json.loads(job.result.read_text()) for job in jobs}
    Console(width=190).print(table(arguments.methods, arguments.seeds, found))


def _arguments() -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--root", type=pathlib.Path, required=True, help="folder for workspaces")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--jobs", type=int, default=1, help="parallel trainings, one core each")
    return parser.parse_args()


def prepare_base(root: pathlib.Path, seed: int) -> pathlib.Path:
    """The workspace that all methods of a seed start from."""
    workspace = root / f"base-{seed}"
    for stage in ("prepare", "bootstrap", "sample", "verify"):
        run_stage(stage, workspace, seed, SHARED)
    # One control for all methods of the seed, with the largest budget of them.
    run_stage("control", workspace, seed, {**SHARED, **METHODS["sft"]})
    return workspace


def train_and_evaluate(job: Job) -> None:
    """Build, train and evaluate in a copy of the seed's workspace; write the result."""
    workspace = job.root / f"{job.method}-{job.seed}"
    if not workspace.exists():
        copying = workspace.with_name(f".{workspace.name}.copying")
        shutil.rmtree(copying, ignore_errors=True)
        shutil.copytree(job.root / f"base-{job.seed}", copying)
        copying.rename(workspace)
    overrides = {**SHARED, **METHODS[job.method]}
    used = {
        stage: run_stage(stage, workspace, job.seed, overrides)
        for stage in ("build", "train", "evaluate", "report")
    }
    metrics = json.loads((workspace / "reports" / "metrics.json").read_text())
    result = {
        "training": asdict(used["train"]),
        "load": os.getloadavg(),
        "metrics": metrics,
    }
    job.result.write_text(json.dumps(result, indent=1))
    print(
        f"seed {job.seed} {job.method}: {difference(metrics, 'policy', 'control', 1)}", flush=True
    )


def difference(metrics: Mapping[str, Any], arm: str, reference: str, k: int) -> Difference:
    """One difference of pass@k in a metrics.json."""
    wanted = (arm, reference, f"pass@{k}", "all")
    for one in metrics["differences"]:
        if (one["arm"], one["reference"], one["measure"], one["subset"]) == wanted:
            return {name: one[name] for name in ("value", "low", "high")}
    raise KeyError(wanted)


def run_stage(stage: str, workspace: pathlib.Path, seed: int, overrides: Overrides) -> Usage:
    """Run one stage in a process and return the resources it used."""
    settings = {"seed": seed, **overrides}
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "flows.cli", "stage", stage, "--workspace", str(workspace)]
    workspace.mkdir(parents=True, exist_ok=True)
    return run_measured([*command, *options], workspace.parent / f"{workspace.name}.log")


def table(
    methods: Sequence[str], seeds: Sequence[int], found: Mapping[tuple[str, int], Mapping[str, Any]]
) -> Table:
    """One row per method, the control first: gains in points, CPU seconds and memory."""
    shown = Table(title="Gain in points, mean of the seeds, with 95 % intervals")
    for column in ("method", *(f"over control, pass@1, seed {seed}" for seed in seeds)):
        shown.add_column(column)
    for column in (
        "trained k",
        "drawn k",
        "over control, pass@1",
        "over control, pass@8",
        "over base, pass@1",
        "over base, pass@8",
        "CPU s",
        "MiB",
    ):
        shown.add_column(column, justify="right")
    controls = [found[methods[0], seed] for seed in seeds]
    shown.add_row(
        "control",
        *[""] * (len(seeds) + 4),
        *(
            points(mean_of(difference(each["metrics"], "control", "base", k) for each in controls))
            for k in (1, 8)
        ),
        f"{_mean(each['metrics']['compute']['control']['cpu_seconds'] for each in controls):.0f}",
    )
    for method in methods:
        results = [found[method, seed] for seed in seeds]
        metrics = [result["metrics"] for result in results]
        shown.add_row(
            method,
            *(points(difference(each, "policy", "control", 1)) for each in metrics),
            *(
                f"{_mean(each['compute']['loop'][f'{what}_tokens'] for each in metrics) / 1000:.0f}"
                for what in ("trained", "drawn")
            ),
            *(
                points(mean_of(difference(each, "policy", reference, k) for each in metrics))
                for reference in ("control", "base")
                for k in (1, 8)
            ),
            f"{_mean(result['training']['cpu_s'] for result in results):.0f}",
            f"{max(result['training']['peak_mib'] for result in results):.0f}",
        )
    return shown


def _mean(values: Iterable[float]) -> float:
    each = list(values)
    return sum(each) / len(each)


if __name__ == "__main__":
    main()
