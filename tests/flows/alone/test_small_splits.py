"""A split that is smaller than asked for is said on the console, also when its problems exist already."""

import io

import pytest
from rich.console import Console

from flows.cli.progress import shown_progress
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.loop.prepare import prepare
from pipeline_lib.systems.stage import Run


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_small_split_is_said(synthetic_data, tmp_path, repeats):
    """One line a split with what was asked for and what there is; none for a split that is whole."""
    settings = ["prepare.dataset=gsm8k", f"prepare.source={synthetic_data / 'gsm8k'}"]
    settings += ["prepare.train_problems=1", "prepare.bootstrap_problems=0"]
    params = load_params(overrides=[*settings, "prepare.test_problems=5000"])
    for _ in range(repeats):
        shown = io.StringIO()
        with shown_progress(tmp_path, Console(file=shown)):
            prepare(Run(root=tmp_path, params=params))
    lines = [line for line in shown.getvalue().splitlines() if "problems=" in line]
    assert len(lines) == 1
    assert lines[0].startswith("prepare.test_problems=5000: the data set leaves ")
