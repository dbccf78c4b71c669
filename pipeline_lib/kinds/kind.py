"""Specification of a kind of answer, and what kinds share to read lines of JSONL.

A kind is a value: code outside `kinds` reads its fields instead of branching on the kind. Rows and
files identify it by name.
"""

import math
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import AfterValidator, BeforeValidator, StrictStr

from pipeline_lib.errors import BadInputError
from pipeline_lib.terminal_text import one_line
from pipeline_lib.verdicts import Verdict


class Gold(Protocol):
    """The reference that decides a problem: a frozen dataclass of plain values and tuples."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


G = TypeVar("G", bound=Gold)
GoldProblem = Callable[[Gold], str | None]
"""The reason why no answer can be judged against a gold, or None."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind(Generic[G]):
    """One kind of answer, from the problem's gold to the report.

    Verification is named, not imported, so that sampling does not depend on it: ``judge``,
    ``answer_form`` and ``gold_check`` take ``package.module:function``. The keys of stages that
    verify cover these modules (`store.keys.NAMED_IMPORTS`).
    """

    name: str
    """Stored in rows and files; do not rename."""
    gold: type[G]
    """Type of its golds; unique to the kind."""
    instruction: str
    """Answer format requested from a chat model; part of the paths' template digest."""
    compact_prompt: Callable[[G], str] | None = None
    """Prompt for completion models; None: question and instruction."""
    solution_texts: Callable[[G, str], list[str]] = lambda _gold, solution: [solution]
    """Worked solutions in the requested answer format, for SFT; from the gold and the data set's
    solution."""
    judge: str | Callable[[G, str], Verdict]
    """Name of a `verify.judges.JudgeOpener`, or a pure function that needs no such module."""
    answer_form: str | Callable[[str], str | None] | None = None
    """Function, or its name, from a text to the canonical spelling of its answer, read without the
    gold; it gives None for a text without an answer. None: answers are never equal, so there is
    no voting."""
    equality_trial: Callable[[str, str], tuple[G, str]] | None = None
    """From two answer forms a gold and a text: the forms are equal if the judge accepts the text.
    None: they are equal only if they are the same string."""
    gold_check: str | Callable[[G], str | None] | None = None
    """A `GoldProblem` for golds of this kind, or the name of a function that opens one as a context manager;
    None: its judge can use every gold."""
    check_text: Callable[[str], str] | None = None
    """From a response to what a check of it computes, read without the gold; in the reasoning of a trained
    synthesizer, before the mark of the response. None: the mark alone."""
    show_gold: Callable[[G], str]
    """The gold as text, for reports and exports."""
    read_line: Callable[[Mapping[str, Any]], G]
    """The gold in a line of a JSONL file, among other keys; raises pydantic.ValidationError."""
    write_line: Callable[[G], dict[str, Any]]
    """Inverse of ``read_line``: the JSON fields that hold the gold."""
    split_unit: Callable[[str], str] = lambda problem_id: problem_id
    """From a problem's id to the unit that train and test must not share."""
    prose_questions: bool = True
    """True: shared word n-grams of two questions count as overlap; False: only whole questions."""

    @property
    def votable(self) -> bool:
        """True if answers can be compared without a gold."""
        return self.answer_form is not None

    def restore_gold(self, fields: Mapping[str, Any]) -> G:
        """The gold from its fields as JSON holds them: lists become tuples, nested ones too."""
        return self.gold(**{name: _as_tuples(value) for name, value in fields.items()})


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


_SHOWN_CHARACTERS = 60


def _number_as_text(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a string or a finite number, got {value}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


Name = Annotated[StrictStr, BeforeValidator(_number_as_text)]
"""A string; a finite number counts as its text, so that ids and answers may lack quotes."""


def is_text(text: str) -> str:
    """``text``; ValueError if it cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate is not text") from None
    return text


Text = Annotated[str, AfterValidator(is_text)]
"""JSON can escape lone surrogates, which neither a tokenizer nor a response can encode."""


@dataclass(frozen=True, slots=True)
class DistinctIds:
    """The ids of a file's lines so far, each with its line. A line that is there twice would count twice."""

    _places: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, *, path: pathlib.Path, number: int) -> None:
        """Add the id of line ``number``; BadInputError: an earlier line has it."""
        if self._places.setdefault(name, number) != number:
            shown = one_line(repr(name), most=_SHOWN_CHARACTERS)
            raise BadInputError(
                f"{path}:{number}: id: {shown} is also at line {self._places[name]}; remove one line, or "
                "give each an id of its own (answers to one problem share its problem_id)"
            )
