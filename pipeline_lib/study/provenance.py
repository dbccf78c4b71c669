"""The revision of the repository that writes a report; no part of a result and of no digest."""

import importlib.metadata
import pathlib
import subprocess

import yaml

from pipeline_lib.defaults import CHECKOUT, CODE_LOCK, DVC_LOCK
from pipeline_lib.params.environment import environment
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import digest_json

_WRITER = "report"
"""The stage that writes the report, so its own entry of the lock cannot be known."""
_TIMEOUT_S = 20.0
_MOST_NAMES = 5


def provenance(params: Params) -> dict[str, str | None]:
    """Version, commit, digest of the params that change results, and engine of an evaluation, for its metrics.json."""
    settings = params.model_dump(mode="json", exclude={"execution", "serve"})
    return {
        "version": importlib.metadata.version("reasonloop"),
        "commit": read_revision().get("commit"),
        "params_digest": digest_json(settings)[:16],
        "engine": params.serve.engine,
    }


def read_revision(root: pathlib.Path = CHECKOUT) -> dict[str, str]:
    """Commit, changed files and digest of dvc.lock, by name; empty if ``root`` is no git checkout.

    Files that git does not track are not listed. What DVC writes stage by stage is left out of the changed
    files; the digest of its lock is given only in a stage of DVC.
    """
    commit = _git(root, "rev-parse", "HEAD")
    top = _git(root, "rev-parse", "--show-toplevel")
    if commit is None or top is None or pathlib.Path(top) != root.resolve():
        return {}
    changed = _git(
        root, "diff", "--name-only", "HEAD", "--", ".", f":!{DVC_LOCK}", f":!{CODE_LOCK}"
    )
    names = (changed or "").splitlines()
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    lock = root / DVC_LOCK
    in_stage = environment("DVC_STAGE") is not None and lock.is_file()
    return {
        "commit": commit,
        "uncommitted changes": (", ".join(names[:_MOST_NAMES]) + more) or "none",
        **({"dvc.lock without this stage": lock_digest(lock)} if in_stage else {}),
    }


def lock_digest(lock: pathlib.Path) -> str:
    """Digest of all stages in a dvc.lock but the one that writes the report."""
    stages = yaml.safe_load(lock.read_text("utf-8"))["stages"]
    return digest_json({name: stages[name] for name in stages if name != _WRITER})


def _git(root: pathlib.Path, *arguments: str) -> str | None:
    """Output of a git command in ``root``, None if it fails or there is no git."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands
            ["git", "--no-optional-locks", "-C", str(root), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
