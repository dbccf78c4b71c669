"""Inspect logs: written and read back by Inspect itself."""

from dataclasses import replace

import pytest
from inspect_ai.log import read_eval_log

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.loop.exports.inspect_log import write_inspect_log
from pipeline_lib.verify.lines import read_lines
from tests.unit.systems.loop.exports.finished_policies import finished

BASE, TRAINED = ["cwflcw", "wwwwxe", "wwwwww"], ["ccflcw", "ccwwxe", "wwwwww"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    run = finished(BASE, TRAINED, ks=(1, 2))
    for policy in run.groups:
        write_inspect_log(run, policy, folder / f"{policy}.eval")
    return {policy: read_eval_log(folder / f"{policy}.eval") for policy in run.groups}


def sample(log, problem_id, epoch):
    return next(s for s in log.samples if (s.id, s.epoch) == (problem_id, epoch))


def test_every_path_is_a_sample(logs):
    """3 problems x 6 paths a policy: 18 samples, each with the path's own text and tokens."""
    for log in logs.values():
        assert log.status == "success"
        assert len(log.samples) == 18
        assert {(s.id, s.epoch) for s in log.samples} == {
            (f"p{problem}", epoch) for problem in range(3) for epoch in range(1, 7)
        }
    third = sample(logs["base"], "p0", 3)
    assert third.output.completion == "3+5=8"
    assert (third.output.usage.input_tokens, third.output.usage.output_tokens) == (5, 12)


def test_scores_stand_side_by_side_with_their_reason(logs):
    """f is right in another format: strict I, lenient C, and the explanation says so."""
    found = sample(logs["base"], "p0", 3).scores
    assert (found["strict"].value, found["lenient"].value) == ("I", "C")
    assert found["strict"].answer == "8"
    assert "not in the requested format" in found["strict"].explanation
    cut = sample(logs["base"], "p0", 4)
    assert cut.output.stop_reason == "max_tokens"
    assert "cut off at the token limit" in cut.scores["strict"].explanation


def test_our_failures_are_errors_without_a_score(logs):
    """x and e of the second problem: no score, and the reason as the sample's error."""
    for epoch, words in ((5, "judge died"), (6, "engine died")):
        failed = sample(logs["base"], "p1", epoch)
        assert failed.scores is None
        assert failed.error.message == words
    assert sum(s.error is not None for s in logs["base"].samples) == 2
    assert logs["base"].results.scores[0].unscored_samples == 2


def test_figures_are_those_of_the_evaluation(logs):
    """Trained, strict: pass@1 is (3/6 + 2/4 + 0) / 3 = 1/3, with its bounds."""
    metrics = logs["trained"].results.scores[0].metrics
    assert metrics["pass@1"].value == pytest.approx(1 / 3)
    assert metrics["low@1"].value < metrics["pass@1"].value < metrics["high@1"].value
    assert "No significant gain" in logs["trained"].eval.metadata["finding"]


def test_provenance_stands_with_each_path(logs):
    """Enough to draw the path again: weights, template, seed, temperature."""
    metadata = sample(logs["base"], "p2", 1).metadata
    assert metadata["model"] == "0123456789abcdef"
    assert metadata["template"] == "fedcba9876543210"
    assert (metadata["seed"], metadata["temperature"]) == (1, 1.0)
    assert logs["base"].eval.model == "reasonloop/base-0123456789abcdef"


def test_model_output_is_shown_as_plain_text(logs):
    """The log tells the viewer to render neither Markdown nor images."""
    assert logs["base"].eval.viewer.trust_content is False


def test_the_same_run_gives_the_same_log(logs, tmp_path):
    """No date of the export and no random id: written again, it reads the same."""
    write_inspect_log(finished(BASE, TRAINED, ks=(1, 2)), "base", tmp_path / "again.eval")
    again = read_eval_log(tmp_path / "again.eval")
    assert again.model_dump(exclude={"etag"}) == logs["base"].model_dump(exclude={"etag"})


def test_text_that_is_no_unicode_can_be_logged(tmp_path):
    """A lone surrogate in a path is written as its escape; the file stays readable."""
    run = finished(["cw"], ["cw"], ks=(1,))
    [group] = run.groups["base"]
    odd = replace(group.members[0], path=replace(group.members[0].path, text="a\ud800b"))
    groups = {"base": [replace(group, members=[odd])]}
    write_inspect_log(replace(run, groups=groups), "base", tmp_path / "odd.eval")
    assert read_eval_log(tmp_path / "odd.eval").samples[0].output.completion == "a\\ud800b"


def test_further_columns_and_messages_are_logged(tmp_path):
    """They are metadata of a sample."""
    run = finished(["cw"], ["cw"], ks=(1,))
    [group] = run.groups["base"]
    turns = (("system", "Be brief."), ("user", "1+1?"))
    odd = replace(group, problem=replace(group.problem, columns={"level": 3}, turns=turns))
    write_inspect_log(replace(run, groups={"base": [odd]}), "base", tmp_path / "odd.eval")
    sample = read_eval_log(tmp_path / "odd.eval").samples[0]
    assert sample.metadata["columns"] == {"level": 3}
    assert sample.metadata["turns"] == [["system", "Be brief."], ["user", "1+1?"]]


def test_verify_names_its_format(tmp_path):
    """One line says what it is and which command reads it."""
    write_inspect_log(finished(["cw"], ["cw"], ks=(1,)), "base", tmp_path / "base.eval")
    with pytest.raises(
        BadInputError, match=r"base\.eval: is a log of Inspect; .*`reasonloop import-rollouts`"
    ):
        list(read_lines(tmp_path / "base.eval"))
