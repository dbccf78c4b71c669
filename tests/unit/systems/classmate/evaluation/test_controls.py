"""The policies that a gain of the last one counts against."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.classmate.evaluation.policies import chosen_controls

ARMS = ["base", "plain", "blind", "w0.1", "w0.5"]


def test_without_names_they_are_all_between_the_first_and_the_last():
    """Of two policies the first is the control."""
    assert chosen_controls(ARMS, ()) == ["plain", "blind", "w0.1"]
    assert chosen_controls(ARMS[:2], ()) == ["base"]


def test_an_arm_that_is_not_named_is_no_control():
    """A gain with the weight 0.5 need not exceed that with 0.1."""
    assert chosen_controls(ARMS, ("plain", "blind")) == ("plain", "blind")


@pytest.mark.parametrize(
    ("policies", "named", "message"),
    [
        (ARMS, ("plian",), "--control plian: is none of base, plain, blind, w0.1"),
        (ARMS, ("w0.5",), "--control w0.5: is none of"),
        (["base"], (), "base: one policy"),
    ],
)
def test_unusable_names(policies, named, message):
    """One line that says what there is."""
    with pytest.raises(BadInputError, match=message) as error:
        chosen_controls(policies, named)
    assert "\n" not in str(error.value)
