"""Judge of programs for tests, which are skipped where no sandbox works."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline_lib.errors import SandboxUnavailableError
from pipeline_lib.params.paths import CodeLimits
from pipeline_lib.verify.code import CodeJudge
from pipeline_lib.verify.sandbox.tiers import open_tier


@contextlib.contextmanager
def open_code_judge(**limits: Any) -> Iterator[CodeJudge]:
    """A judge with these limits."""
    try:
        judge = CodeJudge(open_tier(CodeLimits(**limits)))
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    with contextlib.closing(judge):
        yield judge
