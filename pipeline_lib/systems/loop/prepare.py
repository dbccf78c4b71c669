"""Problems: load or generate the splits, and store them with a report of removed problems."""

import dataclasses

from pipeline_lib.problems.data_set import source_identity
from pipeline_lib.problems.splits import split_notes
from pipeline_lib.sampling.splits import checked_splits
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import read_json, write_json
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.reuse import Unit, record_unit
from pipeline_lib.store.workspace import SPLITS
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import record_event

KIND = "problems"


def prepare(run: Run) -> None:
    """Write the splits, unless they exist under the same key."""
    workspace, params, seed = run.workspace, run.params.prepare, run.params.seed
    key = stage_key(
        __name__,
        params={**params.model_dump(), "seed": seed},
        inputs=source_identity(params.source),
    )
    folders = [workspace.problems(split) for split in SPLITS]
    current = all(manifests.current(folder, kind=KIND, key=key) for folder in folders)
    if current and workspace.problems_report.is_file():
        _note_small_splits(run)
        return
    with record_unit(Unit(workspace=run.root, stage="prepare", key=key)):
        splits = checked_splits(params, seed=seed)
        write_json(workspace.problems_report, dataclasses.asdict(splits.report))
        for split in SPLITS:
            rows = [problem.row() for problem in getattr(splits, split)]
            shards.write_table(workspace.problems(split), rows, kind=KIND, key=key)
    _note_small_splits(run)


def _note_small_splits(run: Run) -> None:
    for text in split_notes(read_json(run.workspace.problems_report)).values():
        record_event(run.root, "note", text=text)
