"""`reasonloop compute-curves` on a finished workspace, and on any model."""

import json
import pathlib
import shutil

import pytest

from pipeline_lib.store import manifests
from pipeline_lib.store.shards import iter_table
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.study import read_study
from pipeline_lib.telemetry import events_size, read_events

OPTIONS = ("--profile", "smoke", "--runner", "thread", "--set", "test_time.budgets=[1,2,4]")
PARTS = {"drawn", "beam-4", "tree"}


def copied(finished_run: pathlib.Path, root: pathlib.Path) -> pathlib.Path:
    for part in ("data/problems", "models/policy", "models/base"):
        shutil.copytree(finished_run / part, root / part)
    return root


def digests(root: pathlib.Path) -> dict[str, str]:
    folders = {p.parent for p in (root / "data" / "compute").rglob("manifest.json")}
    return {str(f.relative_to(root)): manifests.read_manifest(f).digest for f in folders}


@pytest.fixture(scope="module")
def computed(finished_run, reasonloop, tmp_path_factory) -> pathlib.Path:
    """A workspace with the curves of the trained policy."""
    root = copied(finished_run, tmp_path_factory.mktemp("computed"))
    done = reasonloop("compute-curves", "--workspace", root, *OPTIONS)
    assert done.returncode == 0, done.stderr + done.stdout
    (root / "stdout.txt").write_text(done.stdout, encoding="utf-8")
    return root


def test_curves_and_output(computed):
    """All strategies, with intervals and token counts; the oracle is labelled as an upper bound."""
    study = read_study(computed / "reports" / "compute-trained" / "metrics.json")
    points = {one.arm: one for one in study.points if one.subset == "all"}
    assert {one.n for one in points.values()} == {24}
    assert len(points) == 1 + 3 * 9 + 1
    single, vote, bound = (points[k] for k in ("one path", "majority paths=4", "oracle paths=4"))
    assert bound.value >= vote.value
    assert vote.cost.drawn == pytest.approx(4 * single.cost.drawn)
    assert single.cost.critical <= vote.cost.critical <= vote.cost.drawn
    assert points["tree paths=4"].cost.critical == points["tree paths=4"].cost.drawn
    borda = points["weighted vote paths=4 weight=borda"]
    assert borda.cost.prompt - vote.cost.prompt > vote.cost.drawn
    bounds = [one.name for one in study.arms if one.upper_bound]
    assert bounds == [f"oracle paths={budget}" for budget in (1, 2, 4)]
    printed = (computed / "stdout.txt").read_text("utf-8")
    for words in ("oracle", "scorer=", "most accurate strategy", "report.html"):
        assert words in printed
    page = (computed / "reports" / "compute-trained" / "report.html").read_text("utf-8")
    assert "Accuracy against critical path" in page


@pytest.mark.slow
def test_a_broken_run_is_resumed(computed, reasonloop, tmp_path):
    """If one shard of the tree, the answers of a beam and the curves are deleted, only these are made
    again, with the same digests."""
    root = shutil.copytree(computed, tmp_path / "broken")
    shutil.rmtree(root / "data/compute/trained/result")
    shutil.rmtree(root / "data/compute/trained/beam-4/measures")
    for lost in (root / "data/compute/trained/tree/paths").glob("*part-00001*"):
        lost.unlink()
    begin = events_size(root)
    done = reasonloop("compute-curves", "--workspace", root, *OPTIONS)
    assert done.returncode == 0, done.stderr
    work = [
        (e["label"], e["done"]) for e in read_events(root, offset=begin) if e["event"] == "work"
    ]
    again = {("measure beam-4 trained", n) for n in (1, 2, 3)}
    assert set(work) == again | {("search tree trained", 2), ("curves trained", 1)}
    assert digests(root) == digests(computed)


@pytest.mark.slow
def test_other_strategies_reuse_paths(computed, reasonloop, tmp_path):
    """Other selectors on the same paths draw no path; only the curves are made again."""
    root = shutil.copytree(computed, tmp_path / "fewer")
    begin = events_size(root)
    some = ("--set", "test_time.strategies=[self-certainty,majority,tree]")
    done = reasonloop("compute-curves", "--workspace", root, *OPTIONS, *some)
    assert done.returncode == 0, done.stderr
    labels = [e["label"] for e in read_events(root, offset=begin) if e["event"] == "work"]
    assert labels == ["curves trained"]


def test_drawn_tokens_count_towards_the_budget(computed):
    """The manifests of a search's paths have the number of all drawn tokens, as serve.budget_tokens counts."""
    folders = Workspace(computed).compute("trained", "tree")
    counts = manifests.read_manifest(folders.paths).counts
    last: dict[str, int] = {}
    for row in iter_table(folders.costs):
        last[row["problem_id"]] = row["completion_tokens"]
    assert counts["completion_tokens"] == sum(last.values())
    assert counts["requests"] == 24 * 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "test_time.strategies=[tree,tree]"], "each may be given once"),
        (["--max-paths", "4"], "--max-paths is now --set test_time.budgets=[1,2,4,8]"),
        (["--policy", "best"], "policy"),
        (["--set", "test_time.budgets=[0]"], "test_time.budgets"),
        (["--set", "test_time.beam.value=gold"], "test_time.beam.value"),
        (["--engine", "url", "--set", "serve.url=http://127.0.0.1:1/v1"], "serve.engine=url"),
    ],
)
def test_bad_arguments_are_one_line(refused, finished_run, arguments, words):
    """They are refused with exit code 2 before any server or worker is started."""
    assert words in refused("compute-curves", "--workspace", finished_run, *arguments)


def test_a_workspace_without_a_run_is_bad_input(refused, tmp_path):
    """The message names the missing file and the remedy."""
    assert "reasonloop run" in refused("compute-curves", "--workspace", tmp_path)


def test_any_model_on_a_data_set(finished_run, reasonloop, tmp_path):
    """Every strategy for a given model, whose folder is no run; the oracle is marked as an upper bound."""
    (tmp_path / "gsm8k").mkdir()
    rows = [{"question": f"What is {n}+2?", "answer": f"#### {n + 2}"} for n in range(5)]
    lines = [json.dumps(row) + "\n" for row in rows]
    (tmp_path / "gsm8k" / "test.jsonl").write_text("".join(lines), "utf-8")
    root = tmp_path / "curves"
    asked = ("--dataset", f"gsm8k={tmp_path / 'gsm8k'}", "--problems", "3")
    done = reasonloop(
        "compute-curves", Workspace(finished_run).base, *asked, "--workspace", root, *OPTIONS
    )
    assert done.returncode == 0, done.stderr + done.stdout
    study = read_study(root / "reports" / "compute-model" / "metrics.json")
    assert {one.n for one in study.points} == {3}
    assert {"one path", "majority paths=4", "oracle paths=4", "tree paths=4"} < {
        one.name for one in study.arms
    }
    assert [one.name for one in study.arms if one.upper_bound] == [
        f"oracle paths={budget}" for budget in (1, 2, 4)
    ]
    assert str(root / "reports" / "compute-model" / "report.html") in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("models/base",), "MODEL and --dataset: give both"),
        (("--dataset", "gsm8k"), "MODEL and --dataset: give both"),
        (("models/base", "--dataset", "gsm8k,math500"), "give one data set"),
    ],
)
def test_a_model_needs_one_data_set(arguments, complaint, refused, tmp_path):
    """Before anything is started."""
    assert complaint in refused("compute-curves", *arguments, "--workspace", tmp_path)
