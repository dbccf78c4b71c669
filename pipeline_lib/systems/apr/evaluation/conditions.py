"""Conditions of prompts: children per spawn of parallel models, tokens of a sequence of serial ones; 0 is none."""

import pathlib

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.model_record import ThreadModelRecord


def choose_condition(model: pathlib.Path, record: ThreadModelRecord, amount: int | None) -> str:
    """The condition of a model's prompts, as written before them.

    Args:
        model: folder, for the message.
        record: of the model.
        amount: children or tokens; 0: no condition. None: no condition if the model was trained without one
            as well, else the largest of its training.

    Raises:
        BadInputError: the model was not trained on it.
    """
    if amount is None:
        return "" if "" in record.conditions else max(record.conditions, key=amount_of)
    name = lines.SUB_CALL_BUDGET if record.kind == "parallel" else lines.TOKEN_BUDGET
    condition = lines.condition(name, amount) if amount else ""
    if condition not in record.conditions:
        trained = ", ".join(map(_shown, sorted(record.conditions, key=amount_of)))
        raise BadInputError(
            f"{model}: was never trained on {_shown(condition)}, but on {trained}; choose one of these"
        )
    return condition


def trained_amounts(record: ThreadModelRecord) -> list[int]:
    """The amounts of a model's training, in order."""
    return sorted(map(amount_of, record.conditions))


def amount_of(condition: str) -> int:
    """Children or tokens of a condition."""
    digits = "".join(filter(str.isdigit, condition))
    return int(digits) if digits else 0


def _shown(condition: str) -> str:
    return repr(condition.strip()) if condition else "no condition"
