"""`reasonloop export`: a finished run, or a model, in the formats of other tools."""

import pathlib
from typing import Annotated, Literal

from cyclopts import Parameter

from flows.cli.options import DEFAULT_PARAMS, LinesFile, ParamsOptions
from flows.run.terminal import say
from pipeline_lib.errors import needs_extra
from pipeline_lib.store.files import check_output, write_json, write_json_lines
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.loop.exports.lm_eval import lm_eval_results, results_name
from pipeline_lib.systems.loop.exports.model_card import export_policy, model_card
from pipeline_lib.systems.loop.finished_run import read_finished_run
from pipeline_lib.systems.pacore.message_cache import published_rows, read_cache

Run = Annotated[pathlib.Path, Parameter(name="--workspace", help="Folder of the finished run.")]
Folder = Annotated[
    pathlib.Path | None,
    Parameter(name="--output", help="Folder to write to; by default one below reports/."),
]


def inspect(
    *,
    workspace: Run = pathlib.Path(),
    output: Folder = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Write every judged path as Inspect logs, one file per policy, for `inspect view`.

    **Examples:**

        reasonloop export inspect --workspace /tmp/trial
        inspect view --log-dir /tmp/trial/reports/inspect
    """
    loaded, root = params.load(), Workspace(workspace.resolve())
    folder = output or root.reports / "inspect"
    targets = {name: folder / f"{name}.eval" for name in ("base", "control", "trained")}
    for target in targets.values():
        check_output(target)
    with needs_extra("inspect", "the log format"):
        from pipeline_lib.systems.loop.exports.inspect_log import write_inspect_log  # noqa: PLC0415 - an optional package
    run = read_finished_run(root, loaded)
    for policy in run.groups:
        write_inspect_log(run, policy, targets[policy])
        say(f"{run.counts[policy].paths} paths: {targets[policy]}")
    say(f"to look at them: inspect view --log-dir {folder}")


def lm_eval(
    *,
    workspace: Run = pathlib.Path(),
    output: Folder = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Write the scores as lm-evaluation-harness does: one results file per policy.

    **Example:**

        reasonloop export lm-eval --workspace /tmp/trial --output results
    """
    loaded, root = params.load(), Workspace(workspace.resolve())
    folder = output or root.reports / "lm-eval"
    check_output(folder / "results.json")
    run = read_finished_run(root, loaded)
    for policy in run.groups:
        target = folder / policy / results_name(run.evaluated_at)
        write_json(target, lm_eval_results(run, policy))
        say(f"{policy}: {target}")


def policy(
    *,
    output: Annotated[pathlib.Path, Parameter(help="New folder for the model and its card.")],
    workspace: Run = pathlib.Path(),
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Copy the trained policy with its model card (README.md) to a folder that can be published.

    **Example:**

        reasonloop export policy --workspace /tmp/trial --output countdown-policy
    """
    loaded, root = params.load(), Workspace(workspace.resolve())
    card = model_card(read_finished_run(root, loaded))
    export_policy(root.policy(loaded.rounds, rounds=loaded.rounds), card, output)
    say(f"policy and card: {output}")


def pacore_cache(
    paths: Annotated[
        pathlib.Path, Parameter(help="Paths of `reasonloop sample`, or a cache of that format.")
    ],
    /,
    *,
    output: LinesFile,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Write responses as a message cache of PaCoRe: `conversation`, `responses`, `ground_truth`.

    **Example:**

        reasonloop export pacore-cache paths.jsonl --output cache.jsonl
    """
    check_output(output, source=paths)
    rows = published_rows(read_cache(paths, kind=params.load().pacore.kind))
    write_json_lines(output, rows)
    say(f"{len(rows)} questions: {output}")


def model(
    source: Annotated[str, Parameter(help="A Hugging Face folder or hub id.")],
    /,
    *,
    output: Annotated[pathlib.Path, Parameter(help="New folder for the model.")],
    adapter: Annotated[
        tuple[pathlib.Path, ...],
        Parameter(
            negative="", help="A LoRA adapter's folder to merge; repeatable, merged in order."
        ),
    ] = (),
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"] | None,
        Parameter(help="Precision of the weights; default: the source's."),
    ] = None,
) -> None:
    """Merge adapters into their base, or convert the precision, into a plain Hugging Face folder.

    A trained policy is already merged; its adapters are in `adapters/` beside the weights.

    **Examples:**

        reasonloop export model models/policy --output policy-bf16 --dtype bfloat16
        reasonloop export model models/base --adapter models/policy/adapters/1-sft --output merged
        reasonloop export model Qwen/Qwen2.5-1.5B-Instruct --adapter my-adapter --output merged
    """
    from pipeline_lib.train.weights.export import export_model  # noqa: PLC0415 - torch is slow

    done = export_model(source, output, on_top=adapter, dtype=dtype)
    say(f"{done.num_weights:,} weights in {done.dtype}, {len(adapter)} adapters merged: {output}")
