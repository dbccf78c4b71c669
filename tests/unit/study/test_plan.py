"""Draws of an evaluation: policies and baselines at each temperature."""

import pytest

from pipeline_lib.params.evaluate import EvaluateParams, EvaluationSet
from pipeline_lib.params.paths import BootstrapParams, SampleParams
from pipeline_lib.params.train import TrainParams
from pipeline_lib.params.whole import Params
from pipeline_lib.study.plan import evaluation_draws


def planned(*, control_is_base=False, **sections):
    """Folder, temperature and shots of each draw, all with the number of paths of the evaluation."""
    params = Params(**sections)
    sampling = {
        draw.folder(params): draw.sampling(params)
        for draw in evaluation_draws(params, control_is_base=control_is_base)
    }
    assert {one.num_paths for one in sampling.values()} == {params.evaluate.num_paths}
    return {folder: (one.temperature, one.shots) for folder, one in sampling.items()}


def test_a_policy_from_scratch_has_no_baseline():
    """Base, control and trained policy, each once; shots are for sampling alone."""
    assert planned(sample=SampleParams(shots=3)) == dict.fromkeys(
        ("base", "control", "trained"), (1.0, 0)
    )


def test_a_control_equal_to_the_base_is_not_drawn():
    """Nor one that the run does not have."""
    assert list(planned(control_is_base=True)) == ["base", "trained"]
    assert list(planned(train=TrainParams(control=False))) == ["base", "trained"]


def test_a_given_model_is_drawn_untouched_and_with_shots():
    """At both temperatures; the temperature of sampling is not drawn twice."""
    found = planned(
        bootstrap=BootstrapParams(model="some/model", format_steps=9),
        sample=SampleParams(temperature=0.7, shots=3),
        evaluate=EvaluateParams(num_paths=20, temperatures=(0.2, 0.7)),
        train=TrainParams(control=False),
    )
    assert found == {
        "base": (0.7, 0),
        "trained": (0.7, 0),
        "untouched": (0.7, 0),
        "untouched-few-shot": (0.7, 3),
        "base-t0.2": (0.2, 0),
        "trained-t0.2": (0.2, 0),
        "untouched-t0.2": (0.2, 0),
        "untouched-few-shot-t0.2": (0.2, 3),
    }


def test_a_model_that_is_copied_is_the_base():
    """Without format steps the base is the untouched model: only the few-shot draw is added."""
    found = planned(bootstrap=BootstrapParams(model="some/model"), sample=SampleParams(shots=2))
    assert list(found) == ["base", "trained", "control", "untouched-few-shot"]


def test_a_temperature_is_given_once():
    """A repeated one is refused with its key."""
    with pytest.raises(ValueError, match=r"temperatures=\[0\.2, 0\.2\]"):
        EvaluateParams(temperatures=(0.2, 0.2))


def test_further_sets_are_drawn_at_the_temperature_of_sampling():
    """Without shots, which are of the run's data set; the draws of one policy come one after another."""
    found = planned(
        bootstrap=BootstrapParams(model="some/model"),
        sample=SampleParams(temperature=0.7, shots=3),
        evaluate=EvaluateParams(temperatures=(0.2,), sets=(EvaluationSet(dataset="aime24"),)),
        train=TrainParams(control=False),
    )
    assert found["aime24/trained"] == (0.7, 0)
    assert [*found] == [
        *("base", "base-t0.2", "aime24/base"),
        *("trained", "trained-t0.2", "aime24/trained"),
        *("untouched-few-shot", "untouched-few-shot-t0.2"),
    ]
