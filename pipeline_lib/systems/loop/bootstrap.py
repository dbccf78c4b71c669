"""The base policy: trained from scratch, or a given model, copied or taught the answer format."""

import pathlib

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.pretrained import load_chat_format
from pipeline_lib.problems.worked import read_worked
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.store import manifests
from pipeline_lib.store.keys import stage_key
from pipeline_lib.systems.loop.context import check_rows
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import step_recorder
from pipeline_lib.train.bootstrap import make_base_policy
from pipeline_lib.train.tracking.trackers import Trackers
from pipeline_lib.train.weights import policies


def bootstrap(run: Run) -> None:
    """Make ``models/base``, unless it exists under the same key; an interrupted training is resumed."""
    workspace, params, seed = run.workspace, run.params.bootstrap, run.params.seed
    problems = workspace.problems("bootstrap")
    key = stage_key(
        __name__,
        params={**params.model_dump(), "seed": seed},
        inputs={
            "problems": manifests.read_manifest(problems).digest,
            "model": model_identity(params.model) if params.model else "",
        },
    )
    if manifests.current(workspace.base, kind=policies.KIND, key=key):
        return
    # The rest selects the control's checkpoint; with a given model, a part of the train split does.
    worked = read_worked(problems, validation_fraction=params.validation_fraction, seed=seed)
    chat_format = load_chat_format(params.model) if params.model and params.format_steps else None
    rows = solution_rows(worked.train, chat_format)
    if params.model and params.format_steps:
        check_rows(rows, pathlib.Path(params.model))
    make_base_policy(
        rows,
        workspace.base,
        params=params,
        seed=seed,
        key=key,
        problems=worked.train,
        progress=step_recorder(run.root, "bootstrap"),
        trackers=Trackers.of(run.params.execution, workspace.trackers("bootstrap")),
    )
