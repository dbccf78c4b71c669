"""Problems that chains can be trained on: their kinds have rules for what gives an answer away."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import PrepareParams
from pipeline_lib.store.files import write_json
from pipeline_lib.systems.classmate.problem_files import load_problems


def test_problems_of_another_kind_are_refused(tmp_path):
    """A grid can be stated in ways that no rule finds."""
    for number, split in enumerate(["training"] * 6 + ["evaluation"] * 3):
        pair = {"input": [[number, 2]], "output": [[2, number]]}
        (tmp_path / split).mkdir(exist_ok=True)
        write_json(tmp_path / split / f"puzzle{number}.json", {"train": [pair], "test": [pair]})
    params = PrepareParams(
        dataset="arc",
        source=str(tmp_path),
        train_problems=3,
        test_problems=3,
        bootstrap_problems=3,
    )
    with pytest.raises(BadInputError, match="dataset=arc: kind arc has no rule"):
        load_problems(params, "test", seed=7)
