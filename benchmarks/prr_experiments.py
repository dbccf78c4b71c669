"""PRR against its baselines on small tasks: equal core passes, several seeds, ablations.

Each run trains and evaluates one model and writes OUT/TASK--SETTING--SEED.json. A run whose file
exists is skipped, or refused if the file was made with other settings. Several workers may share
OUT. Settings:

    ours, brief      PRR with K = 4, with the default preset and with that of the first description
    single           K = 1 at equal core passes (K times the examples per step); its K noisy
                     rollouts are the baseline that PRR has to beat
    trm              TRM mode at equal width
    independent      the preset brief with alpha 0: branches that never communicate
    ours-*, brief-*  ablations: one change to ours or to brief; ours-8* have K = 8 and twice the
                     core passes, ours-checked 6 % more
    single-checked   K = 1 with a scorer that reads the answer and picks among the rollouts

    python -m benchmarks.prr_experiments run --out OUT --tasks ambiguous --settings ours single
    python -m benchmarks.prr_experiments table --out OUT
"""

import json
import os
import pathlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from benchmarks.lib.command_line import make_parser
from benchmarks.lib.latent_presets import LATENT_PRESETS
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.prr import (
    PrrEvaluateParams,
    PrrLossParams,
    PrrModelParams,
    PrrParams,
    PrrTrainParams,
    SyntheticTaskName,
)
from pipeline_lib.study.statistics.intervals import wilson_interval
from pipeline_lib.study.study import ALL
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet
from pipeline_lib.systems.prr.data.synthetic import SyntheticTask, make_task
from pipeline_lib.systems.prr.evaluation.answers import branch_figures
from pipeline_lib.systems.prr.evaluation.evaluate import EvaluatedSet, evaluate_set, predict_batches
from pipeline_lib.systems.prr.model.branches import core_passes
from pipeline_lib.systems.prr.model.saved_model import load_model
from pipeline_lib.systems.prr.study import model_series
from pipeline_lib.systems.prr.training.train import LatentTraining, train_latent

BRANCHES = 4
# Positions are mixed by a feed-forward map, as TRM does it on Sudoku: with attention the same tasks
# take several times the steps, and with few steps are not learnt at all.
SMALL = {
    "width": 48,
    "heads": 2,
    "hidden_multiple": 32,
    "prefix_tokens": 1,
    "mixer": "mlp",
}
NOISES = (0.1, 0.2, 0.4, 0.8)
VALIDATION, TEST = 256, 1024
BATCH_SIZE = 16
OPTIMIZER: Mapping[str, Any] = {"optimizer": "adam-atan2", "weight_decay": 0.0, "ema": 0.997}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Data and training schedule of a task, the same for all settings."""

    train: int
    """Puzzles; each has ``versions`` augmented versions."""
    versions: int
    steps: int
    lr: float = 5e-3
    grad_steps: int = 2
    """For all settings except brief, which uses 2, and trm, which counts cycles."""


# On the ambiguous rule, twice the learning rate or half the grad_steps can leave all branches at
# the same blend of two answers, depending on the initial weights.
TASKS: Mapping[str, Effort] = {
    "ambiguous": Effort(train=65536, versions=1, steps=2500, lr=2.5e-3, grad_steps=4),
    "sudoku4": Effort(train=2048, versions=8, steps=1000),
    "sudoku4-two": Effort(train=2048, versions=8, steps=2000),
    "sudoku6": Effort(train=2048, versions=16, steps=1000),
    "sudoku6-two": Effort(train=2048, versions=16, steps=2500),
}

OURS, BRIEF = LATENT_PRESETS["ours"], LATENT_PRESETS["brief"]
Change = Mapping[str, Any]
ONE_BRANCH: Change = {"num_branches": 1, "branch_vectors": False}


def setting(name: str, task: str) -> tuple[PrrModelParams, PrrLossParams]:
    """Params of model and loss of a setting."""
    of_brief = name.startswith(("brief", "independent"))
    base = BRIEF if of_brief else OURS
    model: dict[str, Any] = {**base.model.model_dump(), **SMALL, "num_branches": BRANCHES}
    if not of_brief:
        model["grad_steps"] = TASKS[task].grad_steps
    loss = base.loss.model_dump()
    model_changes, loss_changes = CHANGES[name]
    model |= model_changes
    loss |= loss_changes
    return PrrModelParams.model_validate(model), PrrLossParams.model_validate(loss)


CHANGES: Mapping[str, tuple[Change, Change]] = {
    "ours": ({}, {}),
    "brief": ({}, {}),
    "single": (ONE_BRANCH, {}),
    "trm": ({**ONE_BRANCH, "kind": "trm"}, {}),
    "independent": ({"alpha": 0.0}, {}),
    # ours without one part
    "ours-init-only": ({"branch_vectors": False}, {}),
    "ours-constant-tau": ({}, {"tau_start": 0.04, "tau_end": 0.04}),
    "ours-no-floor": ({}, {"floor": 0}),
    "ours-alpha": ({"alpha": 0.1}, {}),
    "ours-no-restarts": ({}, {"restart_every": 0}),
    "ours-first-scorer": ({"scorer_reads": "first", "scorer_certainty": False}, {}),
    "ours-uncertain-scorer": ({"scorer_certainty": False}, {}),
    "ours-checked": ({"scorer_checks": True}, {}),
    "single-checked": ({**ONE_BRANCH, "scorer_checks": True}, {}),
    "ours-attached-scorer": ({}, {"detach_scorer": False}),
    # brief with one part of the preset ours
    "brief-branch-vectors": ({"branch_vectors": True}, {}),
    "brief-detached": ({}, {"detach_scorer": True}),
    # more branches
    "ours-8": ({"num_branches": 8}, {}),
    "ours-8-floor": ({"num_branches": 8}, {"floor": 0.2}),
    "ours-8-slow-floor": ({"num_branches": 8}, {"floor": 0.1, "tau_fraction": 0.9}),
    "ours-equal": ({}, {"floor": 0.9}),
}


def passes_per_example(model: PrrModelParams) -> float:
    """Core passes per example and training step."""
    if model.kind == "trm":
        return model.trm.high_cycles * (model.trm.low_cycles + 1)
    return core_passes(model, model.steps)


def run_one(task: str, name: str, seed: int, *, steps: int | None, out: pathlib.Path) -> None:
    """Train and evaluate one setting, unless its file exists or another worker runs it."""
    target = out / f"{task}--{name}--{seed}.json"
    effort = TASKS[task]
    model, loss = setting(name, task)
    own_steps = steps or effort.steps
    # Equal core passes: a model with fewer passes per example gets more examples per step.
    reference = BRANCHES * PrrModelParams().steps
    rows = BATCH_SIZE * max(1.0, reference / passes_per_example(model))
    train = PrrTrainParams(
        steps=own_steps,
        batch_size=round(rows),
        checkpoint_every=own_steps,
        lr=effort.lr,
        **OPTIMIZER,
    )
    made_with = {
        "data": {"train": effort.train, "versions": effort.versions, "test": TEST},
        "model": model.model_dump(mode="json"),
        "loss": loss.model_dump(mode="json"),
        "train": train.model_dump(mode="json"),
    }
    if target.exists() and json.loads(target.read_text("utf-8")).get("made_with") != made_with:
        raise SystemExit(f"{target} was made with other settings; name another --out")
    claim = target.with_suffix(".claim")
    if target.exists() or not _claim(claim):
        return
    made = make_task(
        cast("SyntheticTaskName", task),
        train=effort.train,
        versions=effort.versions,
        test=VALIDATION + TEST,
        seed=seed,
    )
    cpu, wall = time.process_time(), time.perf_counter()
    folder = pathlib.Path(tempfile.mkdtemp(dir=out, prefix=".work-"))
    try:
        train_latent(
            LatentTraining(
                data=made.train,
                output=folder / "model",
                params=PrrParams(model=model, loss=loss, train=train),
                seed=seed,
                key="experiment",
            )
        )
        train_cpu_s = time.process_time() - cpu
        train_wall_s = time.perf_counter() - wall
        trained = load_model(folder / "model", device=torch.device("cpu"))
        log = (folder / "model" / "training_log.jsonl").read_text("utf-8").splitlines()
        record = {
            "task": task,
            "setting": name,
            "seed": seed,
            "steps": own_steps,
            "batch_size": train.batch_size,
            "passes_a_step": passes_per_example(model),
            "core_passes": own_steps * train.batch_size * passes_per_example(model),
            "parameters": sum(weight.numel() for weight in trained.parameters()),
            "made_with": made_with,
            "train_cpu_s": train_cpu_s,
            "train_wall_s": train_wall_s,
            "log": [json.loads(line) for line in log][:: max(1, len(log) // 16)],
            "evaluations": _evaluate(trained, made, model, seed=seed),
        }
        record["cpu_s"], record["wall_s"] = time.process_time() - cpu, time.perf_counter() - wall
        target.write_text(json.dumps(record, indent=1), encoding="utf-8")
        print(f"{target.name}: {record['wall_s']:.0f} s", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        claim.unlink(missing_ok=True)


def _claim(claim: pathlib.Path) -> bool:
    """Claim a run; False if a living process holds it."""
    try:
        holder = int(claim.read_text("utf-8"))
        os.kill(holder, 0)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        claim.write_text(str(os.getpid()), encoding="utf-8")
        return True
    return False


def _evaluate(
    trained: Any, made: SyntheticTask, model: PrrModelParams, *, seed: int
) -> dict[str, Any]:
    """The plain evaluation; for a single branch also more steps and noisy rollouts."""
    torch.set_num_threads(1)

    def evaluated(part: slice, **changes: Any) -> dict[str, Any]:
        params = PrrEvaluateParams(**changes)
        rows, answers_NAL = _rows(made.test, part), made.answers_NAL[part]
        return _figures(
            evaluate_set(predict_batches(trained, rows, params, seed=seed), answers_NAL=answers_NAL)
        )

    test = slice(VALIDATION, None)
    found = {"plain": evaluated(test)}
    if model.kind == "trm":
        found["2 steps"] = evaluated(test, steps=2)
    elif model.num_branches == 1:
        found[f"{BRANCHES} x steps"] = evaluated(test, steps=BRANCHES * model.steps)
        # The noise is chosen on validation examples.
        chosen = max(
            NOISES,
            key=lambda noise: _found_and_picked(
                evaluated(slice(VALIDATION), rollouts=BRANCHES, noise=noise)
            ),
        )
        for rollouts in (BRANCHES, 2 * BRANCHES):
            found[f"{rollouts} rollouts"] = {
                **evaluated(test, rollouts=rollouts, noise=chosen),
                "noise": chosen,
            }
    return found


def _figures(found: EvaluatedSet) -> dict[str, Any]:
    """Means by arm and measure: of all rows, and by their number of right answers where it varies."""
    shares: dict[str, dict[str, float]] = {}
    for one in model_series("", found):
        if one.values:
            share = statistics.mean(one.values.values())
            shares.setdefault(one.subset, {})[f"{one.arm.base} {one.measure}"] = share
    shares[ALL] |= branch_figures(found.judged)
    return {
        "rows": len(found.judged.places_B),
        "core_passes": found.core_passes,
        "shares": shares,
    }


def _kinds(figures: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """Shares by kind of rows: their number of right answers, if it varies."""
    shares = figures["shares"]
    return {name: shares[name] for name in shares if name != ALL} or {ALL: shares[ALL]}


def _found_and_picked(figures: Mapping[str, Any]) -> float:
    """Share of right answers found plus accuracy of the picks, summed over kinds of rows."""
    kinds = _kinds(figures).values()
    return sum(kind["branches solutions found"] + kind["confidence any solution"] for kind in kinds)


def _rows(data: PuzzleSet, part: slice) -> PuzzleSet:
    inputs_NL, labels_NL = data.inputs_NL[part], data.labels_NL[part]
    count = len(inputs_NL)
    return PuzzleSet.of(
        inputs_NL=inputs_NL,
        labels_NL=labels_NL,
        puzzle_identifiers=[0] * count,
        puzzle_indices=range(count + 1),
        group_indices=range(count + 1),
        vocab_size=data.metadata.vocab_size,
    )


SHOWN = (
    "oracle accuracy",
    "scorer accuracy",
    "confidence accuracy",
    "majority accuracy",
    "branches accuracy",
    "scorer picks best",
    "usage entropy",
    "distinct outputs",
)
OF_KINDS = (
    "branches solutions found",
    "branches all solutions found",
    "confidence any solution",
    "scorer any solution",
    "branches any solution",
)


def table(out: pathlib.Path) -> list[dict[str, Any]]:
    """One row per task, setting and evaluation: means over seeds, intervals over examples."""
    runs = [json.loads(path.read_text("utf-8")) for path in sorted(out.glob("*--*--*.json"))]
    grouped: dict[tuple[str, str, str], list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
    for record in runs:
        for way, figures in record["evaluations"].items():
            grouped.setdefault((record["task"], record["setting"], way), []).append(
                (record, figures)
            )
    return [_row(key, members) for key, members in grouped.items()]


def _row(
    key: tuple[str, str, str], members: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> dict[str, Any]:
    task, name, way = key
    row: dict[str, Any] = {"task": task, "setting": name, "evaluation": way, "seeds": len(members)}
    for figure in SHOWN:
        known = [(found["shares"][ALL], found["rows"]) for _, found in members]
        values = [shares[figure] for shares, _ in known if figure in shares]
        if not values:
            continue
        row[figure] = statistics.mean(values)
        if figure.endswith("accuracy"):
            row[f"{figure} by seed"] = values
            rows = sum(number for _, number in known)
            right = round(sum(shares[figure] * number for shares, number in known))
            if figure != "branches accuracy":
                interval = wilson_interval(right, rows, EvaluateParams())
                row[f"{figure} interval"] = (interval.low, interval.high)
    for kind in _kinds(members[0][1]):
        for figure in OF_KINDS:
            values = [figures["shares"][kind][figure] for _, figures in members]
            row[f"{figure} of {kind}"] = statistics.mean(values)
    row["core passes an example"] = members[0][1]["core_passes"]
    row["training core passes"] = members[0][0]["core_passes"]
    row["parameters"] = members[0][0]["parameters"]
    row["train cpu s"] = statistics.mean(record["train_cpu_s"] for record, _ in members)
    return row


def _shown(row: Mapping[str, Any]) -> str:
    def figure(name: str) -> str:
        low, high = row.get(f"{name} interval", (None, None))
        value = row.get(name)
        if value is None:
            return "-"
        return f"{value:.3f}" if low is None else f"{value:.3f} ({low:.3f}-{high:.3f})"

    known = [name for name in row if " of " in name]
    cells = [
        row["task"],
        row["setting"],
        row["evaluation"],
        str(row["seeds"]),
        *(figure(name) for name in SHOWN),
        ", ".join(f"{name} {row[name]:.3f}" for name in known),
        str(row["core passes an example"]),
        f"{row['train cpu s']:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Run the missing settings, or print the table."""
    parser = make_parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="train and evaluate the missing settings")
    runner.add_argument(
        "--tasks", nargs="+", choices=TASKS, default=["ambiguous", "sudoku6", "sudoku6-two"]
    )
    runner.add_argument("--settings", nargs="+", choices=CHANGES, default=list(CHANGES))
    runner.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    runner.add_argument("--steps", type=int, help="training steps; default: those of the task")
    shower = commands.add_parser("table", help="means over seeds")
    for command in (runner, shower):
        command.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.command == "run":
        for seed in options.seeds:
            for task in options.tasks:
                for name in options.settings:
                    run_one(task, name, seed, steps=options.steps, out=options.out)
        return
    rows = table(options.out)
    (options.out / "table.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print(
        "| task | setting | evaluation | seeds | "
        + " | ".join(SHOWN)
        + " | right answers | passes | train CPU s |"
    )
    print("|" + "---|" * (len(SHOWN) + 7))
    for row in rows:
        print(_shown(row))


if __name__ == "__main__":
    main()
