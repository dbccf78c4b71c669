"""A training on rows of a file: rows of one's own, and rows that cannot be used."""

import json

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.loop.by_hand.train import train_on_file

PAIR = {"prompt": "2,3=5\n", "chosen": "2+3=5", "rejected": "3-2=5"}


@pytest.mark.parametrize(
    ("method", "row", "message"),
    [
        (
            "sft",
            {"prompt": "2,3=5\n"},
            "rows.jsonl:2: completion is no text; these rows need prompt, comp",
        ),
        ("dpo", PAIR | {"rejected": None}, "rows.jsonl:2: rejected is no text"),
        ("grpo", {"problem_id": "p", "prompt": "2,3=5\n"}, "rows.jsonl:2.*gold"),
        ("ppo", {"prompt": "2,3=5\n"}, "rows.jsonl:2: problem_id is no text"),
    ],
)
def test_unusable_rows_are_refused_by_line_and_key(method, row, message, tmp_path):
    """Nothing is written, and the base is not read."""
    good = PAIR | {"completion": "2+3=5", "problem_id": "good", "gold": "5"}
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(good) + "\n" + json.dumps(row) + "\n", "utf-8")
    params = Params.model_validate({"train": {"method": method, "warm_start_steps": 0}})
    with pytest.raises(BadInputError, match=message) as refusal:
        train_on_file("none", rows, tmp_path / "out", params)
    assert "\n" not in str(refusal.value)
    assert [*tmp_path.iterdir()] == [rows]


def test_a_missing_warm_start_is_refused(tmp_path):
    """Not left out: the training would be another one."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(PAIR | {"problem_id": "p", "gold": "5"}) + "\n", "utf-8")
    params = Params.model_validate({"train": {"method": "grpo", "warm_start_steps": 2}})
    with pytest.raises(
        BadInputError, match=r"rows.warm_start.jsonl: no such file.*warm_start_steps=0$"
    ):
        train_on_file("none", rows, tmp_path / "out", params)
