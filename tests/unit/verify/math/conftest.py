"""The judge of mathematics, opened once for each module."""

import pytest

from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verify.math.judge import MathJudge


@pytest.fixture(scope="module")
def judge():
    with MathJudge(MathLimits(), workers=2) as judge:
        yield judge
