"""Problems of threads in files of JSON lines: Countdown, or questions in words with a gold of any kind."""

import pathlib
from collections.abc import Callable
from typing import Any, Protocol

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from pipeline_lib.errors import BadInputError, first_fault
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.kind import DistinctIds, Gold, Name
from pipeline_lib.kinds.math import MATH
from pipeline_lib.kinds.table import KINDS
from pipeline_lib.problems.countdown import NAME, problem_id, question_of
from pipeline_lib.records import Problem, Row
from pipeline_lib.store.files import numbered_json_lines


class ThreadProblem(Protocol):
    """A problem that is evaluated or trained on."""

    @property
    def id(self) -> str:
        """Distinct in its file."""

    @property
    def question(self) -> str:
        """As asked."""

    @property
    def gold(self) -> Gold:
        """The reference that decides its answers."""

    def row(self) -> Row:
        """As the row of a `Problem`."""

    @property
    def model_dump(self) -> Callable[..., dict[str, Any]]:
        """Makes its line."""


class ProblemLine(BaseModel):
    """A line with a problem of Countdown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    numbers: tuple[StrictInt, ...] = Field(min_length=2)
    target: StrictInt

    @property
    def gold(self) -> CountdownGold:
        """The problem."""
        return CountdownGold(numbers=self.numbers, target=self.target)

    @property
    def question(self) -> str:
        """The id of the problem where numbers and target name it."""
        return problem_id(tuple(sorted(self.numbers)), self.target)

    def row(self) -> Row:
        """As the row of a `Problem`, with sorted numbers."""
        gold = CountdownGold(numbers=tuple(sorted(self.numbers)), target=self.target)
        question = question_of(gold.numbers, gold.target)
        return Problem(id=self.id, question=question, gold=gold, source=NAME).row()


class WordsLine(BaseModel):
    """A line with a question in words; its other keys are the gold of its kind, and facts of whoever made it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    id: Name
    question: StrictStr = Field(min_length=1)
    kind: StrictStr = MATH.name

    @model_validator(mode="after")
    def _gold(self) -> "WordsLine":
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r}: expected one of {', '.join(KINDS)}")
        _ = self.gold
        return self

    @property
    def facts(self) -> dict[str, Any]:
        """The further keys."""
        return self.model_extra or {}

    @property
    def gold(self) -> Gold:
        """The gold."""
        gold: Gold = KINDS[self.kind].read_line(self.facts)
        return gold

    def row(self) -> Row:
        """As the row of a `Problem`."""
        return Problem(id=self.id, question=self.question, gold=self.gold, source="words").row()


def read_problems(path: pathlib.Path) -> list[ThreadProblem]:
    """The problems of a JSON-lines file; a line with a question is one in words.

    Raises:
        BadInputError: a missing file, a malformed line, or an id that occurs twice, with its line.
    """
    problems: list[ThreadProblem] = []
    ids = DistinctIds()
    for number, value in numbered_json_lines(path):
        in_words = "question" in value
        expected = "id, question and gold" if in_words else "id, numbers and target"
        try:
            problem = (WordsLine if in_words else ProblemLine).model_validate(value)
        except ValidationError as error:
            raise BadInputError(
                f"{path}:{number}: {first_fault(error)}; expected {expected}"
            ) from error
        ids.add(problem.id, path=path, number=number)
        problems.append(problem)
    return problems
