"""The rounds of a run on worked solutions instead of own paths, at equal steps.

Reads base and train problems of a workspace whose rounds were trained by SFT. Each round has the steps,
batches, rates and seed of the run's round and starts from the policy before it; all worked solutions of
the train problems take the place of the verified paths. No checkpoint is selected. Give the options of
the run; finished rounds are kept.

    python -m benchmarks.worked_rounds runs/7 --profile smol --set seed=7 --root /tmp/worked
    reasonloop sample /tmp/worked/round-2 --output worked.jsonl --profile smol --set seed=7
"""

import argparse
import pathlib

from benchmarks.lib.command_line import make_parser
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.pretrained import load_chat_format
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.train import Method
from pipeline_lib.params_file import load_params
from pipeline_lib.records import Problem
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.seeding import round_seed
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.train.methods import TrainingRequest, train_policy


def main() -> None:
    """Train the missing rounds and print a line for each."""
    arguments = _arguments()
    params = load_params(profile=arguments.profile, overrides=arguments.overrides)
    if params.train.method is not Method.SFT:
        raise SystemExit(
            f"train.method={params.train.method.value}: give the options of an SFT run"
        )
    workspace = Workspace(arguments.workspace.resolve())
    problems = workspace.problems("train")
    rows = solution_rows(
        [Problem.from_row(row) for row in shards.iter_table(problems)],
        load_chat_format(str(workspace.base)),
    )
    start = workspace.base
    for number in range(1, params.rounds + 1):
        output = arguments.root.resolve() / f"round-{number}"
        seed = round_seed(params.seed, number)
        summary = train_policy(
            TrainingRequest(
                base=str(start),
                output=output,
                rows=rows,
                params=params.train,
                verify=params.verify,
                max_new_tokens=params.sample.max_new_tokens,
                seed=seed,
                key=stage_key(
                    "pipeline_lib.train.methods",
                    params={"train": params.train.model_dump(exclude={"control"}), "seed": seed},
                    inputs={
                        "start": model_identity(str(start)),
                        "problems": manifests.read_manifest(problems).digest,
                    },
                ),
            )
        )
        print(
            f"{output}: {summary.steps} steps on {len(rows)} worked solutions, "
            f"loss {summary.last['loss']:.3f}, {summary.seconds:.0f} s",
            flush=True,
        )
        start = output


def _arguments() -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("workspace", type=pathlib.Path, help="folder of the run")
    parser.add_argument("--root", type=pathlib.Path, required=True, help="folder for the policies")
    parser.add_argument("--profile", help="as in the run")
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], help="KEY=VALUE, as in the run"
    )
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except BadInputError as error:
        raise SystemExit(str(error)) from error
