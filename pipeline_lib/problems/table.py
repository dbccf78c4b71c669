"""All data sets by the value of ``prepare.dataset``. A new one is a module and a line here."""

from collections.abc import Collection, Mapping

from pipeline_lib.errors import BadInputError, suggestion
from pipeline_lib.problems import countdown, word_problems
from pipeline_lib.problems.arc_grids import ARC, CONCEPT_ARC
from pipeline_lib.problems.data_set import DataSet
from pipeline_lib.problems.math_word import GSM8K, MATH, YEARLY_CONTEST
from pipeline_lib.problems.python_code import HUMANEVAL, MBPP
from pipeline_lib.terminal_text import one_line

GENERATED = (countdown.NAME, word_problems.NAME)
"""The data sets that are generated; all others are loaded."""

DATA_SETS: Mapping[str, DataSet] = {
    "gsm8k": GSM8K,
    "math": MATH,
    "aime": YEARLY_CONTEST,
    "hmmt": YEARLY_CONTEST,
    "humaneval": HUMANEVAL,
    "mbpp": MBPP,
    "arc": ARC,
    "concept-arc": CONCEPT_ARC,
}

_SHOWN_CHARACTERS = 60


def find_data_set(name: str) -> DataSet:
    """The loaded data set of that name; BadInputError with the names if there is none."""
    check_data_set(name, DATA_SETS)
    return DATA_SETS[name]


def check_data_set(name: str, known: Collection[str] = (*GENERATED, *DATA_SETS)) -> None:
    """Raise BadInputError with the names if ``name`` is none of ``known``, by default the generated and loaded ones."""
    if name not in known:
        shown = one_line(repr(name), most=_SHOWN_CHARACTERS)
        close = suggestion(name, known) or ";"
        raise BadInputError(f"data set {shown} is unknown{close} there are {', '.join(known)}")
