"""Paths: seeded by name, in order, with their provenance; failures are data."""

from benchmarks.lib.scripted import ScriptedModel
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import SampleParams
from pipeline_lib.records import FinishReason, Path, Problem
from pipeline_lib.sampling.paths import KIND, path_counts, sample_paths
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.store.shards import read_shard, write_shard

PROBLEMS = [
    Problem(id=f"c{i}", question="?", gold=CountdownGold(numbers=(i, 1), target=i + 1), source="t")
    for i in range(1, 4)
]
PARAMS = SampleParams(num_paths=3, max_new_tokens=5)


def draw(problems, *, seed=7, name="round-1"):
    model = ScriptedModel(answer=lambda prompt, path_seed: f"{prompt.strip()} {path_seed}")
    return sample_paths(problems, model, PARAMS, seed=seed, draw=name)


def test_a_path_depends_on_names_not_on_company():
    """Sampled alone or with others, a problem's paths are the same."""
    together = draw(PROBLEMS)
    alone = [path for problem in PROBLEMS for path in draw([problem])]
    assert together == alone
    assert [path.id for path in together[:4]] == ["c1#0", "c1#1", "c1#2", "c2#0"]


def test_seed_and_name_change_the_draw():
    """Another root seed or draw gives other seeds to all paths."""
    reference = {path.provenance.seed for path in draw(PROBLEMS)}
    assert len(reference) == 9
    assert not reference & {path.provenance.seed for path in draw(PROBLEMS, seed=8)}
    assert not reference & {path.provenance.seed for path in draw(PROBLEMS, name="evaluate")}


def test_more_paths_begin_with_the_fewer():
    """Seeds of one problem are consecutive, below 2**63, and do not depend on how many are drawn."""
    few, more = (consecutive_seeds(n, 7, "round-1", "c1") for n in (3, 10**6))
    assert list(few) == list(more[:3]) == [few[0], few[0] + 1, few[0] + 2]
    assert 0 <= more[0] < more[-1] < 2**63


def test_provenance_says_what_drew_it():
    """Model, engine, adapter and seed of each path: enough to draw it again."""
    model = ScriptedModel(answer=lambda *_: "ok", adapter="policy@2")
    path = sample_paths(PROBLEMS, model, PARAMS, seed=7, draw="round-1")[1]
    assert path.provenance.model == "scripted"
    assert path.provenance.engine == "scripted"
    assert path.provenance.adapter == "policy@2"
    assert path.provenance.seed == consecutive_seeds(3, 7, "round-1", "c1")[1]


def test_a_failed_request_is_a_status(tmp_path):
    """A failed request gives an ERROR path with a reason, counted in the shard's manifest."""
    model = ScriptedModel(answer=lambda prompt, _: None if "2,1" in prompt else "ok")
    paths = sample_paths(PROBLEMS, model, PARAMS, seed=7, draw="round-1")
    failed = [path for path in paths if path.finish_reason is FinishReason.ERROR]
    assert [path.problem_id for path in failed] == ["c2"] * 3
    assert all(path.error and path.text == "" for path in failed)
    manifest = write_shard(
        tmp_path,
        0,
        [path.row() for path in paths],
        kind=KIND,
        key="k",
        counts=path_counts(paths),
    )
    # One word a prompt, counted once a problem; six answered paths of one word each.
    assert manifest.counts == {
        "rows": 9,
        "requests": 3,
        "prompt_tokens": 3,
        "cached_tokens": 0,
        "completion_tokens": 6,
        "failed": 3,
    }
    assert [Path.from_row(row) for row in read_shard(tmp_path, 0)] == paths
