"""The comparison of a candidate with the released policy: figures, refusals, first release."""

import pytest

from pipeline_lib.errors import BadInputError, CorruptArtifactError
from pipeline_lib.problems.trained import write_record
from pipeline_lib.publish.promotion.comparison import make_request, read_candidate, release
from pipeline_lib.publish.promotion.releases import Releases
from pipeline_lib.records import Interval
from pipeline_lib.store import manifests
from pipeline_lib.store.files import write_text
from pipeline_lib.store.workspace import Workspace
from tests.unit.publish.finished_workspace import COMPUTE, finish

GOOD, BAD = ["cc"] * 20, ["ww"] * 20
HALF = ["cc"] * 10 + ["ww"] * 10


@pytest.fixture
def releases(tmp_path):
    return Releases(tmp_path / "released")


def compared(folder, releases, trained, **changed):
    """The request of a new workspace."""
    return make_request(finish(folder, base=HALF, trained=trained, **changed), releases)


def test_the_first_is_compared_with_the_base(tmp_path, releases):
    """Ten of twenty problems are gained over the base: 50 points; the text says why the base."""
    request = compared(tmp_path / "run", releases, GOOD)
    facts = request.facts
    assert (facts.compared_with, facts.replaces) == ("base", None)
    assert (facts.pass_at_1, facts.gain.value, facts.gained, facts.lost) == (1.0, 0.5, 10, 0)
    assert facts.gain.low > 0
    assert "No policy is released yet" in request.description
    assert request.regression is None


def test_the_form_has_gain_interval_flips_and_cost(tmp_path, releases):
    """Each figure of the facts, the compute of the run, and 1.5 s for 40 paths are in the text."""
    request = compared(tmp_path / "run", releases, GOOD)
    # Shards of 0.5 s and 1.0 s; the shard that was drawn twice counts once.
    assert request.facts.cost.seconds_per_1000_paths == 37.5
    assert request.facts.cost.making == COMPUTE
    text = request.description.replace("\N{NO-BREAK SPACE}", " ")
    gain = request.facts.gain
    interval = f"+50.0 (+{100 * gain.low:.1f} to +{100 * gain.high:.1f})"
    for figure in (interval, "10 gained, 0 lost", "37.5 s", "1 min 02 s", "tokens per path"):
        assert figure in text, figure
    assert "| p10 | gained |" in request.details


def test_later_ones_are_compared_with_the_release(tmp_path, releases):
    """A candidate equal to its own base, 50 points better than the released policy, is a gain."""
    release(compared(tmp_path / "first", releases, ["cc", *BAD[1:]]), releases)
    request = compared(tmp_path / "second", releases, HALF, weights="other")
    assert (request.facts.compared_with, request.facts.replaces) == ("release 1", 1)
    assert request.facts.gain.value == 0.45
    assert request.facts.gained == 9


def test_a_regression_is_one_line(tmp_path, releases):
    """An interval wholly below 0 is a regression; one that reaches 0 is not."""
    release(compared(tmp_path / "first", releases, GOOD), releases)
    worse = compared(tmp_path / "second", releases, HALF, weights="other")
    assert worse.facts.gain.high < 0
    assert worse.regression is not None
    assert "below release 1" in worse.regression
    assert "0 problems gained and 10 lost" in worse.regression
    assert "\n" not in worse.regression
    slightly = compared(tmp_path / "third", releases, [*GOOD[1:], "ww"], weights="third")
    assert slightly.facts.gain.value == -0.05
    assert slightly.regression is None


def test_the_released_weights_are_recognized(tmp_path, releases):
    """The same weights again are the release already, other weights are not."""
    release(compared(tmp_path / "first", releases, GOOD), releases)
    assert compared(tmp_path / "again", releases, GOOD).released_as == 1
    assert compared(tmp_path / "other", releases, GOOD, weights="other").released_as is None


def test_the_key_is_of_candidate_and_figures(tmp_path, releases):
    """An answer is valid for these weights and figures only."""
    first = compared(tmp_path / "first", releases, GOOD)
    assert make_request(Workspace(tmp_path / "first"), releases).key == first.key
    assert compared(tmp_path / "weights", releases, GOOD, weights="x").key != first.key
    assert compared(tmp_path / "scores", releases, [*GOOD[1:], "ww"]).key != first.key


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"temperature": 0.5}, "temperature is 0.5, of release 1 1.0"),
        ({"top_p": 0.9}, "top_p is 0.9"),
        ({"max_new_tokens": 9}, "max_new_tokens is 9"),
        ({"engine": "vllm"}, "engine is vllm"),
        ({"seed": 99}, "the seeds of 40 of 40 paths differ"),
        ({"trained": [*GOOD, "cc"]}, "only 20 are among the 20"),
        ({"trained": ["ccc"] * 20}, "60 paths were drawn, for release 1 40"),
    ],
    ids=["temperature", "top_p", "max_new_tokens", "engine", "seed", "problems", "paths"],
)
def test_other_conditions_are_refused(tmp_path, releases, changed, words):
    """One line that names the first difference."""
    release(compared(tmp_path / "first", releases, GOOD), releases)
    trained = changed.pop("trained", GOOD)
    workspace = finish(
        tmp_path / "second", base=trained, trained=trained, weights="other", **changed
    )
    with pytest.raises(BadInputError) as refused:
        make_request(workspace, releases)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_other_weights_than_evaluated_are_refused(tmp_path, releases):
    """A policy that was trained after the evaluation, and one that differs from its manifest."""
    workspace = finish(tmp_path / "run", base=HALF, trained=GOOD)
    policy = workspace.policy(1, rounds=1)
    write_text(policy / "model.safetensors", "trained later")
    with pytest.raises(CorruptArtifactError, match=r"model\.safetensors"):
        make_request(workspace, releases)
    manifests.seal(policy, kind="model", key="train")
    with pytest.raises(BadInputError, match="stage evaluate"):
        make_request(workspace, releases)


def test_a_policy_that_was_trained_on_evaluated_problems_is_refused(tmp_path, releases):
    """Its gain is no evidence. The invented problems have one question, so all were in the training."""
    workspace = finish(tmp_path / "run", base=HALF, trained=GOOD)
    asked = [group.problem for group in read_candidate(workspace).groups[:1]]
    write_record(workspace.policy(1, rounds=1), asked, start="hub")
    with pytest.raises(BadInputError, match="NOT HELD OUT: 20 of 20 evaluated problems"):
        make_request(workspace, releases)


def test_an_unfinished_run_is_refused(tmp_path, releases):
    """One line with the command that finishes it."""
    with pytest.raises(BadInputError, match="finish `reasonloop run`"):
        make_request(Workspace(tmp_path), releases)


def test_facts_survive_their_file(tmp_path, releases):
    """What is read back equals what was written."""
    request = compared(tmp_path / "run", releases, GOOD)
    made = release(request, releases)
    assert isinstance(made.record.facts.gain, Interval)
    assert releases.read(1) == made
    assert releases.read(1).record.facts == request.facts
