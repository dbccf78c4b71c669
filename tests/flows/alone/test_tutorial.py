"""docs/tutorial.md: its commands as they are printed, from an empty folder and the wheel to a report."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.study.study import read_study

TUTORIAL = REPOSITORY / "docs" / "tutorial.md"
TIMEOUT_S = 3600
"""Far above five minutes: the cores are not idle."""
OFFLINE = {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
"""The libraries are those of this environment."""


def commands() -> list[str]:
    """Of all blocks, without their comments' effect."""
    blocks = re.findall(r"```console\n(.*?)```", TUTORIAL.read_text("utf-8"), flags=re.DOTALL)
    return re.findall(r"^\$ (.+)$", "".join(blocks), flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_the_trained_policy_is_ten_points_above_its_base(reasonloop, wheel, tmp_path):
    """In pass@1, with an interval clear of 0; the report is written, and the task is that of `task new`."""
    site, folder = tmp_path / "site", tmp_path / "empty"
    folder.mkdir()
    shutil.copy(wheel, folder)
    programs = f"{site}/bin:{pathlib.Path(sys.executable).parent}:{reasonloop.environment['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", "\n".join(commands())],
        cwd=folder,
        env={
            **(reasonloop.environment | OFFLINE),
            "PATH": programs,
            "PIP_TARGET": str(site),
            "PYTHONPATH": str(site),
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert (folder / "trial" / "reports" / "report.html").is_file()
    study = read_study(folder / "trial" / "reports" / "metrics.json")
    [gain] = [
        one
        for one in study.differences
        if (one.arm, one.reference, one.measure, one.subset) == ("policy", "base", "pass@1", "all")
    ]
    assert gain.value >= 0.1
    assert gain.low > 0
