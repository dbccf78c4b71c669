"""A shard of verdicts reads the problems of its own paths and no others."""

import pytest

from benchmarks.lib.recorded_paths import recorded_problem, write_paths
from pipeline_lib.errors import CorruptArtifactError
from pipeline_lib.params.whole import Params
from pipeline_lib.store import shards
from pipeline_lib.store.shards import shard_name
from pipeline_lib.systems.loop import verify
from pipeline_lib.systems.loop.draw import Draw
from pipeline_lib.systems.stage import Run

PROBLEMS, PATHS_EACH, SHARD_SIZE = 7, 2, 3


@pytest.fixture
def planned(tmp_path):
    """Three shards of paths, over a table of problems in shards of two."""
    run = Run(root=tmp_path, params=Params())
    draw = Draw(
        run=run,
        name="round-1",
        seed_name="round-1",
        problems=tmp_path / "problems",
        model="none",
        folders=run.folders,
        sample=run.params.sample,
    )
    rows = [recorded_problem(number).row() for number in range(PROBLEMS)]
    shards.write_table(draw.problems, rows, kind="problems", key="k", shard_size=2)
    write_paths(draw.folders.paths, problems=PROBLEMS, paths_each=PATHS_EACH, shard_size=SHARD_SIZE)
    return verify.plan_shards(draw)


def statuses(planned, index):
    verify.verify(planned[index])
    return [row["status"] for row in shards.read_shard(planned[index].draw.folders.verdicts, index)]


def test_every_shard_is_judged_by_its_golds(planned):
    """Paths are right where number and index are both even or both odd; the last shard has one problem."""
    right_first, wrong_first = ["correct", "wrong"], ["wrong", "correct"]
    assert statuses(planned, 0) == right_first + wrong_first + right_first
    assert statuses(planned, 1) == wrong_first + right_first + wrong_first
    assert statuses(planned, 2) == right_first


def test_other_problems_are_not_read(planned):
    """With the problems 0 and 1 damaged, the last two shards are judged, and the first is refused."""
    target = planned[0].draw.problems / shard_name(0)
    target.write_bytes(target.read_bytes()[:-1] + b"?")
    assert len(statuses(planned, 1)) == 6
    assert len(statuses(planned, 2)) == 2
    with pytest.raises(CorruptArtifactError, match="sha256 differs"):
        verify.verify(planned[0])


def test_problems_of_another_draw_are_refused(planned):
    """The table was written again, with another order: no path is judged by another problem's gold."""
    rows = [recorded_problem(number).row() for number in reversed(range(PROBLEMS))]
    shards.write_table(planned[0].draw.problems, rows, kind="problems", key="k", shard_size=2)
    with pytest.raises(CorruptArtifactError, match=r"problem 'recorded-00000\d' .* is not there"):
        verify.verify(planned[0])
