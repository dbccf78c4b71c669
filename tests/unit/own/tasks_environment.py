"""The tasks environment of the repository, where there is one."""

import pytest

from benchmarks.lib.repository import REPOSITORY

TASKS = REPOSITORY / ".venv-tasks"
needs_tasks = pytest.mark.skipif(
    not (TASKS / "bin" / "python").exists(), reason="no task sets: make tasks-env"
)
