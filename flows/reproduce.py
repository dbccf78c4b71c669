"""`dvc repro` as a flow: the stages run as commands of DVC, and their result is committed and pushed.

It does not enter the run guard: each stage that DVC starts holds the workspace itself.
"""

import pathlib

from prefect import flow

from tasks.versioning import check_repository, commit_lock, push_results, reproduce_stages


@flow(name="reproduce")
def reproduce(
    *, repository: pathlib.Path = pathlib.Path(), targets: tuple[str, ...] = (), push: bool = True
) -> None:
    """Run the stages that are not up to date, commit dvc.lock, and push data and commit.

    Args:
        repository: The git repository; relative to the worker's folder.
        targets: Stages of dvc.yaml, with those that they need. Default: all.
        push: Push to the DVC remote, and to the branch's upstream if it has one.
    """
    root = repository.expanduser().resolve()
    check_repository(root, push=push)
    reproduce_stages(root, targets)
    commit_lock(root)
    if push:
        push_results(root)
