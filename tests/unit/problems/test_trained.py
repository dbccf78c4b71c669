"""The record of the problems that a model was trained on."""

import pytest

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import CorruptArtifactError
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.problems.trained import RECORD_NAME, trained_on, write_record
from pipeline_lib.records import Problem


def problem(name, question):
    return Problem(id=name, question=question, gold=MathGold(answer="1"), source="test")


FIRST, SECOND, THIRD = (problem(f"p{n}", f"What is {n}+1?") for n in range(3))


@pytest.fixture
def model(tmp_path):
    """A model that was trained on the first problem, and then on the second."""
    for name in ("start", "model"):
        (tmp_path / name).mkdir()
    write_record(tmp_path / "start", [FIRST], start="owner/hub-id")
    write_record(tmp_path / "model", [SECOND], start=str(tmp_path / "start"))
    return tmp_path / "model"


def test_problems_of_earlier_trainings_count(model):
    """Two of three, also after a copy without training; of the start one; of a hub id nothing is known."""
    copy = model.with_name("copy")
    copy.mkdir()
    write_record(copy, (), start=str(model))
    models = {"m": str(model), "c": str(copy), "s": str(model.with_name("start")), "h": "owner/id"}
    of_model, of_copy, of_start = trained_on(models, [FIRST, SECOND, THIRD])
    assert of_model.startswith("NOT HELD OUT: 2 of 3 evaluated problems were in a training of m (")
    assert of_copy == of_model.replace(" of m ", " of c ")
    assert of_start.startswith("NOT HELD OUT: 1 of 3 ")
    assert "(first: p0)" in of_start


@pytest.mark.parametrize(
    ("evaluated", "seen"),
    [
        (problem("p1", "Asked in other words"), True),
        (problem("other", " what IS\\n1+1? ".replace("\\n", "\n")), True),
        (problem("other", "What is 2+2?"), False),
        (problem("other", ""), False),
    ],
)
def test_id_or_normalized_question_decides(model, evaluated, seen):
    """Either is enough; a missing question equals none."""
    write_record(model, [problem("empty", "")], start=str(model))
    assert bool(trained_on({"m": str(model)}, [evaluated])) is seen


def test_the_record_is_no_part_of_the_model(model):
    """The same weights are the same model, whatever they were trained on."""
    (model / "model.safetensors").write_text("weights", "utf-8")
    before = model_identity(str(model))
    (model / RECORD_NAME).unlink()
    assert model_identity(str(model)) == before


def test_a_damaged_record_is_refused(model):
    """A digest that was removed by hand would hide its problem."""
    record = model / RECORD_NAME
    lines = record.read_text("utf-8").splitlines(keepends=True)
    record.write_text("".join([*lines[:2], *lines[3:]]), "utf-8")
    with pytest.raises(CorruptArtifactError, match="differs from its digest; train"):
        trained_on({"m": str(model)}, [FIRST])
