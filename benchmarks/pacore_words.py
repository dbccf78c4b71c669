r"""Synthesis of word problems by SmolLM2, prompted and trained, for each form of the references.

Does the gain of locks carry over to words? The base policy is SmolLM2-135M-Instruct after a few steps on worked
solutions, which teach it the answer format. It draws paths for train problems, of which the verified ones become the
targets of synthesis episodes, and a LoRA adapter is trained on these: once for each form (`pacore.compaction`), the
conclusion of a path, its answer, or a summary by the model itself. `pacore evaluate` compares rounds 4,1 of the base
policy and of the synthesizer with the best vote of no more drawn tokens, on the same test problems.

Each command is a process, and finished ones are kept: run the same command to resume. About 40 minutes of two cores.

    make model
    python -m benchmarks.pacore_words --root /tmp/words --output words.json
    python -m benchmarks.pacore_words --root /tmp/tiny --problems 6 --steps 2 --set prepare.train_problems=8
"""

import argparse
import pathlib
import shutil
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.commands import run_once, usage_file
from benchmarks.lib.seeds import points
from pipeline_lib.store.files import read_json

FORMS = ("conclusion", "answer", "model")
STRATEGY = "rounds 4,1"


def main() -> None:
    """Run what is missing, then print a row for each form and model; the first has the minutes of the base policy."""
    arguments = _arguments()
    found = {form: _run(form, arguments) for form in FORMS}
    write_results(arguments.output, found)
    Console(width=150).print(_table(found))


def _arguments() -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--root", type=pathlib.Path, required=True, help="folder for all models")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--problems", type=int, default=100, help="of the test")
    parser.add_argument("--steps", type=int, default=40, help="of SFT, 8 episodes each")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of all commands")
    add_output(parser)
    return parser.parse_args()


def _run(form: str, arguments: argparse.Namespace) -> dict[str, Any]:
    root = arguments.root.resolve()
    folder, fresh = root / form, root / f"{form}.partial"
    params = {
        "seed": arguments.seed,
        "prepare.test_problems": arguments.problems,
        "pacore.compaction": form,
        "pacore.summary_tokens": 40,
        "pacore.evaluate.plain_paths": 8,
        "pacore.evaluate.other_references": "false",
        "pacore.train.method": "sft",
        "pacore.train.branches": "cached",
        "pacore.train.control": "false",
        "pacore.train.lora.enabled": "true",
        "pacore.train.lr": 0.0005,
        "pacore.train.batch_size": 8,
        "pacore.train.steps": arguments.steps,
        **dict(one.split("=", 1) for one in arguments.set),
    }
    if not folder.exists():
        # The base policy and its paths are of the first form.
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        for made in ("data", "models") if form != FORMS[0] else ():
            shutil.copytree(root / FORMS[0] / made, fresh / made)
        fresh.rename(folder)
    command = ("pacore", "run", "--profile", "pacore-smol", "--runner", "thread")
    run_once(folder, "run", *command, "--workspace", folder, params=params)
    metrics = read_json(folder / "reports" / "pacore" / "metrics.json")
    return {
        "rows": _rows(metrics),
        "minutes": read_json(usage_file(folder, "run"))["wall_s"] / 60,
    }


def _rows(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Of each model: its synthesis minus the best votes, of its own paths and of the other's, of no more drawn tokens."""
    names = ("arm", "reference", "n", "of_arm", "of_reference", "value", "low", "high")
    return [
        {name: one[name] for name in names}
        for one in metrics["differences"]
        if one["arm"].startswith(STRATEGY) and "best vote, drawn" in one["reference"]
    ]


def _table(found: dict[str, dict[str, Any]]) -> Table:
    shown = Table(title=f"{STRATEGY} minus the best vote of no more drawn tokens, in points")
    for column in ("references", "arm", "vote", "n", "arm, %", "vote, %", "difference", "minutes"):
        shown.add_column(column)
    for form, one in found.items():
        for row in one["rows"]:
            shares = (f"{100 * row[name]:.1f}" for name in ("of_arm", "of_reference"))
            names = (form, row["arm"], row["reference"], str(row["n"]))
            shown.add_row(*names, *shares, points(row), f"{one['minutes']:.0f}")
    return shown


if __name__ == "__main__":
    main()
