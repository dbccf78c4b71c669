"""Votes of three small models against one model of the sum of their weights, at equal drawn tokens.

Each seed has one set of problems. Four Llamas of different shapes are trained from scratch on the same worked solutions
for the same steps; the three small ones have together as many weights as the large one, so equal paths cost about
equal compute. Votes are by ``reasonloop pacore consensus``: the majority, votes weighted by probability per token, and
votes weighted by each model's accuracy on train problems, which no model was trained on. The control of the mixture is
as many paths of one small model. Finished stages and samples are kept: run the same command to resume. Three seeds
take about an hour on one core.

    python -m benchmarks.pacore_models --root /tmp/models --seeds 7 8 9
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from safetensors import safe_open

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.repository import REPOSITORY
from benchmarks.lib.seeds import mean_of, over_seeds, points
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.pacore import PacoreParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import read_json_lines, write_json_lines
from pipeline_lib.study.study import Arm, Contrast, Series, make_study, study_row
from pipeline_lib.systems.pacore.consensus import Method, consensus_of_file
from pipeline_lib.verify.dispatch import open_verifier
from pipeline_lib.verify.lines import judge_lines, parse_line

SHAPES: Mapping[str, tuple[int, int]] = {
    "small-96x4": (96, 4),
    "small-80x6": (80, 6),
    "small-112x3": (112, 3),
    "large-168x4": (168, 4),
}
"""Hidden size and layers: 0.52, 0.53, 0.54 and 1.54 M weights."""
SMALL = tuple(name for name in SHAPES if name.startswith("small"))
LARGE = "large-168x4"
SIZES = {
    "prepare.train_problems": 400,
    "prepare.bootstrap_problems": 4000,
    "prepare.test_problems": 400,
    "bootstrap.steps": 1000,
}
PATHS = 24
LABELLED_PATHS = 4
COUNTS = (3, 6, 12, 24)
Answers = list[dict[str, Any]]
"""Lines of `reasonloop sample`."""


def main() -> None:
    """Make what is missing of each seed, then print the votes and their differences."""
    arguments = _arguments()
    found = [run_seed(arguments.root.resolve(), seed) for seed in arguments.seeds]
    show(found)
    write_results(arguments.output, found)


def _arguments() -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    add_output(parser)
    return parser.parse_args()


def run_seed(root: pathlib.Path, seed: int) -> dict[str, Any]:
    """The study of one seed as a row, with the weights of the models and the tokens of their paths."""
    folder = root / f"seed-{seed}"
    drawn = {name: draw(folder / name, seed, name, "test", PATHS) for name in SHAPES}
    known = {name: draw(folder / name, seed, name, "train", LABELLED_PATHS) for name in SMALL}
    accuracies = {rows[0]["model"]: _mean(judged(rows)) for rows in known.values()}
    series, contrasts = studied(folder, drawn, accuracies)
    study = make_study(
        "pacore",
        series,
        contrasts,
        evaluate=EvaluateParams(),
        seed=seed,
        provenance={},
    )
    tokens = {
        name: _mean([row["completion_tokens"] for row in rows]) for name, rows in drawn.items()
    }
    print(
        f"seed {seed}: accuracy on labelled problems {accuracies}, tokens per path {tokens}",
        flush=True,
    )
    return {
        "study": study_row(study),
        "weights": {name: _weights(folder / name) for name in SHAPES},
        "tokens": tokens,
        "accuracies": accuracies,
    }


def draw(workspace: pathlib.Path, seed: int, name: str, split: str, paths: int) -> Answers:
    """Paths of a model, made if it is missing."""
    hidden, layers = SHAPES[name]
    settings = {
        "seed": seed,
        **SIZES,
        "bootstrap.hidden_size": hidden,
        "bootstrap.num_layers": layers,
    }
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    output = workspace / f"{split}.jsonl"
    if not output.exists():
        for stage in ("prepare", "bootstrap"):
            _reasonloop("stage", stage, "--workspace", workspace, *options)
        asked = ("--split", split, "--num-paths", paths, "--output", output)
        _reasonloop("sample", workspace / "models" / "base", *asked, *options)
    return list(read_json_lines(output))


def studied(
    folder: pathlib.Path, drawn: Mapping[str, Answers], accuracies: Mapping[str, float]
) -> tuple[list[Series], list[Contrast]]:
    """Each vote at each number of paths, and the differences at the largest one."""
    scored: dict[tuple[str, str, int], Series] = {}
    for name, rows in drawn.items():
        scored[name, "one path", 1] = _series(name, "one path", 1, _by_problem(rows, judged(rows)))
    rules: dict[str, tuple[Method, Mapping[str, float]]] = {
        "majority": (Method.MAJORITY, {}),
        "weighted vote": (Method.WEIGHTED, {}),
        "accuracy vote": (Method.WEIGHTED, accuracies),
    }
    for count in COUNTS:
        voters = {name: [*_first(rows, count)] for name, rows in drawn.items()}
        voters["three small"] = _mixed([drawn[name] for name in SMALL], count)
        for (name, rows), (rule, (method, weights)) in itertools.product(
            voters.items(), rules.items()
        ):
            if name == "three small" or rule != "accuracy vote":
                values = elected(folder / "votes", rows, method, weights)
                scored[name, rule, count] = _series(name, rule, count, values)
    mixture, most = "three small", COUNTS[-1]
    compared = [
        ((mixture, "majority"), (LARGE, "majority")),
        ((mixture, "accuracy vote"), (LARGE, "weighted vote")),
        ((mixture, "weighted vote"), (mixture, "majority")),
        ((mixture, "accuracy vote"), (mixture, "majority")),
        *(((mixture, "majority"), (name, "majority")) for name in SMALL),
        ((LARGE, "weighted vote"), (LARGE, "majority")),
    ]
    contrasts = [
        Contrast(
            candidate=scored[(*arm, most)],
            reference=scored[(*reference, most)],
            seed_names=("pacore-models", *arm, *reference),
        )
        for arm, reference in compared
    ]
    return [*scored.values()], contrasts


def _series(name: str, rule: str, count: int, values: Mapping[str, float]) -> Series:
    settings: dict[str, str | int] = {"of": name, "paths": count}
    if rule == "accuracy vote":
        rule, settings["by"] = "weighted vote", "accuracy"
    arm = Arm(base=rule, settings=settings)
    return Series(arm=arm, measure="accuracy", values=values, seed_names=(name, rule, count))


def _first(rows: Answers, count: int) -> Iterator[dict[str, Any]]:
    """The first paths of each problem."""
    for _, own in itertools.groupby(rows, key=lambda row: row["problem_id"]):
        yield from itertools.islice(own, count)


def _mixed(models: Sequence[Answers], count: int) -> Answers:
    """As many paths of each problem, the models in turn."""
    each = [list(_first(rows, count // len(models))) for rows in models]
    return [
        {**row, "id": f"{row['id']}/{place}"}
        for same in zip(*each, strict=True)
        for place, row in enumerate(same)
    ]


def elected(
    folder: pathlib.Path, rows: Answers, method: Method, weights: Mapping[str, float]
) -> dict[str, float]:
    """The score of the elected text of each problem."""
    source, output = folder / "texts.jsonl", folder / "elected.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    write_json_lines(source, rows)
    params = Params(pacore=PacoreParams(kind="countdown", weights=dict(weights)))
    consensus_of_file(source, output, params, method=method, score=None, round_number=1)
    problems = {row["problem_id"]: row for row in rows}
    chosen = [
        problems[row["problem_id"]] | {"text": row["text"]} for row in read_json_lines(output)
    ]
    return _by_problem(chosen, judged(chosen))


def judged(rows: Answers) -> list[float]:
    """The verifier's score of each text."""
    with open_verifier(VerifyParams()) as verifier:
        verdicts = judge_lines([parse_line(row, where=row["id"]) for row in rows], verifier)
    return [float(one.lenient or 0.0) for one in verdicts]


def _by_problem(rows: Answers, scores: Sequence[float]) -> dict[str, float]:
    each: dict[str, list[float]] = {}
    for row, score in zip(rows, scores, strict=True):
        each.setdefault(row["problem_id"], []).append(score)
    return {name: _mean(found) for name, found in each.items()}


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4)


def _weights(workspace: pathlib.Path) -> int:
    with safe_open(workspace / "models" / "base" / "model.safetensors", framework="np") as file:
        return sum(file.get_tensor(name).size for name in file.keys())  # noqa: SIM118


def show(found: Sequence[Mapping[str, Any]]) -> None:
    """Accuracy of every vote, and the differences, as means of the seeds."""
    console = Console(width=150)
    shown = Table(title="accuracy in %, mean of the seeds")
    for column in ("arm", "accuracy", *(f"seed {number}" for number in range(1, len(found) + 1))):
        shown.add_column(column)
    for each in zip(*(one["study"]["points"] for one in found), strict=True):
        values = [100 * one["value"] for one in each]
        shown.add_row(
            each[0]["arm"], f"{np.mean(values):.1f}", *(f"{value:.1f}" for value in values)
        )
    console.print(shown)
    shown = Table(title="differences in points")
    for column in ("arm", "reference", "over problems", "over seeds"):
        shown.add_column(column)
    for each in zip(*(one["study"]["differences"] for one in found), strict=True):
        seeds = over_seeds([one["value"] for one in each])
        row = (points(mean_of(each)), points(seeds) if seeds else "")
        shown.add_row(each[0]["arm"], each[0]["reference"], *row)
    console.print(shown)
    console.print(json.dumps([one["weights"] for one in found]))


def _reasonloop(*arguments: object) -> None:
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    subprocess.run(command, cwd=REPOSITORY, check=True)


if __name__ == "__main__":
    main()
