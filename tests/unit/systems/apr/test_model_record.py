"""Which condition stands before the prompts of a model."""

import pathlib

import pytest
from pydantic import ValidationError

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.apr.model_record import ThreadModelRecord, choose_condition

FOLDER = pathlib.Path("m")
TEN, NINE = "Sub Call Budget: 10 ", "Sub Call Budget: 9 "
LONG, SHORT = "Token Budget: 96 ", "Token Budget: 64 "


def record(*conditions, kind="parallel"):
    return ThreadModelRecord(
        kind=kind,
        style="compact",
        num_numbers=3,
        window=256,
        conditions=conditions,
        data="d",
        sequences=1,
        dropped=0,
    )


@pytest.mark.parametrize(
    ("conditions", "kind", "words"),
    [
        ((), "parallel", "at least 1 item"),
        (("Sub Call Budget: 10",), "parallel", "last space"),
        (("", "Sub Call Budget: ten "), "parallel", "last space"),
        (("Token Budget: 96 ",), "parallel", "Sub Call Budget: N "),
        (("Sub Call Budget: 3 ",), "serial", "Token Budget: N "),
    ],
)
def test_a_record_has_conditions_that_the_grammar_reads(conditions, kind, words):
    """Another text before a prompt would leave the root unread, and every child unknown."""
    with pytest.raises(ValidationError, match=words):
        record(*conditions, kind=kind)


@pytest.mark.parametrize(
    ("model", "amount", "expected"),
    [
        (record(NINE, TEN), 9, NINE),
        (record(NINE, TEN), None, TEN),
        (record(SHORT, LONG, kind="serial"), 64, SHORT),
        (record("", SHORT, LONG, kind="serial"), 96, LONG),
        (record("", SHORT, LONG, kind="serial"), 0, ""),
        (record("", SHORT, LONG, kind="serial"), None, ""),
        (record(""), None, ""),
    ],
)
def test_the_condition_is_one_of_the_training(model, amount, expected):
    """Without an amount none if the model was trained so, else the largest: 10 and not 9."""
    assert choose_condition(FOLDER, model, amount) == expected


@pytest.mark.parametrize(
    ("model", "amount", "message"),
    [
        (
            record(TEN, NINE),
            3,
            "on 'Sub Call Budget: 3', but on 'Sub Call Budget: 9', 'Sub Call Budget: 10';",
        ),
        (record(TEN, NINE), 0, "on no condition, but on 'Sub Call Budget: 9'"),
        (record(""), 3, "but on no condition;"),
    ],
)
def test_a_condition_that_was_never_trained_is_refused(model, amount, message):
    """The message lists what was, by size."""
    with pytest.raises(BadInputError, match=message):
        choose_condition(FOLDER, model, amount)


def test_the_amounts_of_a_training_are_in_order():
    """By size, with 0 for none."""
    assert record(TEN, "", NINE).trained_amounts == [0, 9, 10]
