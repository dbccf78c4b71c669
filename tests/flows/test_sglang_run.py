"""The whole loop, drawn by the simulated SGLang, whose requests and responses SGLang's own classes check."""

import pytest

from pipeline_lib.store.shards import iter_table
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.study import read_study
from tests.unit.engines.sglang.environment import make_environment

SMOKE = ("--profile", "smoke", "--runner", "thread")


def texts(table) -> list[tuple[str, str, str]]:
    """Each path with its problem and how it ended."""
    rows = iter_table(table)
    return [(row["problem_id"], row["text"], row["finish_reason"]) for row in rows]


@pytest.mark.slow
def test_a_whole_run(finished_run, reasonloop, tmp_path):
    """Paths equal those of the embedded engine; GRPO draws from adapters that the server loads in each step."""
    done = reasonloop(
        *("run", "--engine", "sglang", "--workspace", tmp_path / "run", *SMOKE),
        *("--set", f"serve.environment={make_environment(tmp_path / 'environment')}"),
        *("--set", "train.rollouts=endpoint", "--set", "train.lora.enabled=true"),
    )
    assert done.returncode == 0, done.stderr
    ours, embedded = Workspace(tmp_path / "run"), Workspace(finished_run)
    drawn = texts(ours.round_folders(1).paths)
    assert drawn == texts(embedded.round_folders(1).paths)
    assert len(drawn) == 128
    verdicts = [list(iter_table(one.round_folders(1).verdicts)) for one in (ours, embedded)]
    assert [row["status"] for row in verdicts[0]] == [row["status"] for row in verdicts[1]]
    assert texts(ours.evaluation("base").paths) == texts(embedded.evaluation("base").paths)
    study = read_study(tmp_path / "run" / "reports" / "metrics.json")
    assert study.point("base", "pass@1") == read_study(
        finished_run / "reports" / "metrics.json"
    ).point("base", "pass@1")
    assert 0 <= study.point("policy", "pass@1").value <= 1
    assert (tmp_path / "run" / "reports" / "report.html").is_file()
    engines = {row["engine"] for row in iter_table(ours.evaluation("trained").paths)}
    assert engines == {"sglang"}
