"""The stage that makes the data."""

import pathlib

from pipeline_lib.systems.prr.data.joined import join_folders
from pipeline_lib.systems.prr.data.synthetic import build_synthetic
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import record_work


def make_data(run: Run) -> None:
    """Generate the synthetic task, or join several folders, unless it exists or one folder is given."""
    data, params = run.workspace.prr.data, run.params.prr.data
    # dvc.yaml lists it as an output for every task.
    data.mkdir(parents=True, exist_ok=True)
    if params.folder is None:
        build_synthetic(params, data, seed=run.params.seed)
    elif not isinstance(params.folder, str):
        join_folders([pathlib.Path(one).resolve() for one in params.folder], data)
    record_work(run.root, "prr-data", done=1, total=1)
