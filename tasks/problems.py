"""Problems: load or generate the splits, store them with a report of what was left out."""

import dataclasses
import pathlib

from prefect import task

from pipeline_lib.params.paths import PrepareParams
from pipeline_lib.problems.splits import make_splits
from pipeline_lib.storage import manifests, shards
from pipeline_lib.storage.files import digest_file, digest_json, write_json
from pipeline_lib.storage.stages import stage_key
from pipeline_lib.storage.workspace import SPLITS, Workspace
from pipeline_lib.telemetry import record_work
from pipeline_lib.verification.golds import open_gold_check
from tasks.policies import PLAN

KIND = "problems"


@task(**PLAN, task_run_name="prepare-{params.dataset}")
def prepare_problems(workspace: Workspace, params: PrepareParams, *, seed: int) -> str:
    """Write the splits, unless they are there already; the key under which they are."""
    key = stage_key(
        __name__, params={**params.model_dump(), "seed": seed}, inputs=_source(params.folder)
    )
    folders = [workspace.problems(split) for split in SPLITS]
    current = all(manifests.current(folder, kind=KIND, key=key) for folder in folders)
    if current and workspace.problems_report.is_file():
        return key
    with open_gold_check() as gold_problem:
        splits = make_splits(params, seed=seed, gold_problem=gold_problem)
    write_json(workspace.problems_report, dataclasses.asdict(splits.report))
    for split in SPLITS:
        rows = [problem.row() for problem in getattr(splits, split)]
        shards.write_table(workspace.problems(split), rows, kind=KIND, key=key)
    record_work(workspace.root, "prepare", done=1, total=1)
    return key


def _source(folder: str | None) -> dict[str, str]:
    """Digest of the data that the splits are made from; a hub id stands for itself."""
    if folder is None:
        return {}
    root = pathlib.Path(folder).expanduser()
    files = sorted(path for path in root.rglob("*") if path.is_file()) if root.is_dir() else []
    digests = {str(path.relative_to(root)): digest_file(path) for path in files}
    return {"folder": digest_json(digests) if digests else folder}
