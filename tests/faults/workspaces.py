"""Workspaces of tiny runs: made in part, compared, searched for what a dead process has left."""

import pathlib
import shutil

from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.run.guard import workspace_tag
from pipeline_lib.store import manifests
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.loop.stages import LOOP

_SETTINGS = (
    *("prepare.train_problems=12", "prepare.test_problems=6"),
    *("sample.shard_size=2", "train.method=sft", "train.steps=4"),
    *("train.lr=0.002", "build.worked_solutions=true"),
    *("evaluate.resamples=100", "execution.workers=2"),
)
TINY = ("--profile", "smoke", *(part for one in _SETTINGS for part in ("--set", one)))
"""A run of seconds: six shards of training problems, three of test problems."""
THREADS = ("--runner", "thread")


def copy_until(stage: str, source: pathlib.Path, target: pathlib.Path) -> None:
    """Copy the outputs of all stages before ``stage`` from a finished run."""
    for one in LOOP.stages:
        if one.name == stage:
            return
        for output in one.outputs:
            if (source / output).exists():
                shutil.copytree(source / output, target / output)
    raise LookupError(stage)


def digests(root: pathlib.Path) -> dict[str, str]:
    """Digest of the content of each sealed folder and shard, by its manifest's path."""
    return {
        path.relative_to(root).as_posix(): manifests.read_manifest(
            path.parent, manifest_name=path.name
        ).digest
        for path in sorted(root.rglob(f"*{manifests.MANIFEST_NAME}"))
    }


def temporary_files(root: pathlib.Path) -> list[pathlib.Path]:
    """Hidden files and folders: work folders, files and folders without their final name."""
    return [path for path in sorted(root.rglob("*")) if path.name.startswith(".")]


def sealed_files(root: pathlib.Path) -> dict[str, tuple[int, int]]:
    """Inode and time of change of each file that a manifest lists, outside of work folders."""
    found = {}
    for path in root.rglob(f"*{manifests.MANIFEST_NAME}"):
        if not any(part.startswith(".") for part in path.relative_to(root).parts):
            for name in manifests.read_manifest(path.parent, manifest_name=path.name).files:
                status = (path.parent / name).stat()
                found[f"{path.parent}/{name}"] = (status.st_ino, status.st_mtime_ns)
    return found


def flow_runs(api_url: str, root: pathlib.Path) -> dict[str, str]:
    """Name and state of each flow run on a workspace."""
    tags = FlowRunFilter(tags=FlowRunFilterTags(all_=[workspace_tag(Workspace(root))]))
    with (
        temporary_settings({PREFECT_API_URL: api_url}),
        get_client(sync_client=True) as client,
    ):
        runs = client.read_flow_runs(flow_run_filter=tags, limit=200)
    return {f"{run.name} {run.id}": run.state.name for run in runs}


def assert_whole(root: pathlib.Path, unbroken: pathlib.Path, api_url: str) -> None:
    """The run has ended as an unbroken one: digests, no temporary file, no flow run at work."""
    assert digests(root) == digests(unbroken)
    assert (root / "reports" / "report.html").is_file()
    assert temporary_files(root) == []
    assert set(flow_runs(api_url, root).values()) <= {"Completed", "Crashed", "Failed"}
