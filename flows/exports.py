"""`reasonloop export`: a finished run, or a model, in the formats of other tools. Heavy imports wait."""

import pathlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from flows.options import ParamsOptions
from flows.terminal import PlainConsole
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.repository import REPOSITORY
from pipeline_lib.storage.files import check_output, write_json
from pipeline_lib.storage.workspace import Workspace

if TYPE_CHECKING:
    from pipeline_lib.exports.evaluated_policy import EvaluatedPolicy
    from pipeline_lib.reporting.report import ReportInput

export_app = App(
    name="export",
    help="A finished run, or a model, in the formats of other tools.",
    help_format="markdown",
)
DEFAULT_PARAMS = ParamsOptions()
console = PlainConsole()

Run = Annotated[pathlib.Path, Parameter(name="--workspace", help="Folder of the finished run.")]
Folder = Annotated[
    pathlib.Path | None,
    Parameter(name="--output", help="Folder to write to; by default one below reports/."),
]


@export_app.command(name="inspect")
def export_inspect(
    *,
    workspace: Run = REPOSITORY,
    output: Folder = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Write every judged path as Inspect logs, a file a policy (as trained.eval), for `inspect view`.

    **Examples:**

        reasonloop export inspect --workspace /tmp/trial
        inspect view --log-dir /tmp/trial/reports/inspect
    """
    loaded, root = params.load(), Workspace(workspace.resolve())
    folder = output or root.reports / "inspect"
    targets = {name: folder / f"{name}.eval" for name in ("base", "control", "trained")}
    for target in targets.values():
        check_output(target)
    try:
        from pipeline_lib.exports.inspect_log import write_inspect_log  # noqa: PLC0415 - slow
    except ModuleNotFoundError as error:
        raise BadInputError(
            f"{error.name} is not installed, and the log format needs it; "
            "run `pip install 'reasonloop[inspect]'`"
        ) from error
    for policy in _policies(root, loaded):
        write_inspect_log(policy, targets[policy.name])
        console.print(
            f"{policy.summary.num_paths} paths: {targets[policy.name]}",
            markup=False,
            soft_wrap=True,
        )
    console.print(f"to look at them: inspect view --log-dir {folder}", markup=False, soft_wrap=True)


@export_app.command(name="lm-eval")
def export_lm_eval(
    *,
    workspace: Run = REPOSITORY,
    output: Folder = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Write the scores as lm-evaluation-harness does: one results file a policy.

    **Example:**

        reasonloop export lm-eval --workspace /tmp/trial --output results
    """
    loaded, root = params.load(), Workspace(workspace.resolve())
    from pipeline_lib.exports.lm_eval import lm_eval_results, results_name  # noqa: PLC0415 - scipy

    folder = output or root.reports / "lm-eval"
    check_output(folder / "results.json")
    for policy in _policies(root, loaded):
        target = folder / policy.name / results_name(policy.evaluated_at)
        write_json(target, lm_eval_results(policy, loaded))
        console.print(f"{policy.name}: {target}", markup=False, soft_wrap=True)


@export_app.command(name="policy")
def export_trained_policy(
    *,
    output: Annotated[pathlib.Path, Parameter(help="New folder for the model and its card.")],
    workspace: Run = REPOSITORY,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Copy the trained policy with its model card (README.md) to a folder that can be published.

    **Example:**

        reasonloop export policy --workspace /tmp/trial --output countdown-policy
    """
    loaded, root = params.load(), Workspace(workspace.resolve())
    from pipeline_lib.exports.model_card import export_policy, model_card  # noqa: PLC0415 - scipy

    card = model_card(_finished(root, loaded), loaded)
    export_policy(root.policy(loaded.rounds, rounds=loaded.rounds), card, output)
    console.print(f"policy and card: {output}", markup=False, soft_wrap=True)


@export_app.command(name="model")
def export_plain_model(
    source: Annotated[str, Parameter(help="A Hugging Face folder or hub id.")],
    /,
    *,
    output: Annotated[pathlib.Path, Parameter(help="New folder for the model.")],
    adapter: Annotated[
        tuple[pathlib.Path, ...],
        Parameter(negative="", help="A LoRA adapter's folder to merge; may be repeated, in order."),
    ] = (),
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"] | None,
        Parameter(help="Precision of the weights; without it, that of the source."),
    ] = None,
) -> None:
    """Merge adapters into their base, or change a model's precision: a plain Hugging Face folder.

    A trained policy is merged already; its adapters stand in `adapters/` beside the weights.

    **Examples:**

        reasonloop export model models/policy --output policy-bf16 --dtype bfloat16
        reasonloop export model models/base --adapter models/policy/adapters/1-sft --output merged
        reasonloop export model Qwen/Qwen2.5-1.5B-Instruct --adapter my-adapter --output merged
    """
    from pipeline_lib.training.weights.export import export_model  # noqa: PLC0415 - torch takes seconds

    done = export_model(source, output, on_top=adapter, dtype=dtype)
    console.print(
        f"{done.num_weights:,} weights in {done.dtype}, {len(adapter)} adapters merged: {output}",
        markup=False,
        soft_wrap=True,
    )


def _finished(workspace: Workspace, params: Params) -> "ReportInput":
    from pipeline_lib.reporting.finished_run import read_finished_run  # noqa: PLC0415 - scipy

    return read_finished_run(workspace, params)


def _policies(workspace: Workspace, params: Params) -> "list[EvaluatedPolicy]":
    from pipeline_lib.evaluation.result import RESULT_NAME  # noqa: PLC0415 - scipy
    from pipeline_lib.exports.evaluated_policy import evaluated_policies  # noqa: PLC0415 - as above

    source = _finished(workspace, params)
    # The day of the evaluation, so that two exports of a run are the same.
    written = (workspace.evaluation_result / RESULT_NAME).stat().st_mtime
    return evaluated_policies(
        source,
        dataset=params.prepare.dataset,
        evaluated_at=datetime.fromtimestamp(int(written), tz=UTC),
    )
