"""Mathematical answers, compared by value: numbers, expressions, sets, intervals."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, StrictStr, model_validator

from pipeline_lib.kinds.kind import Kind, Name

_CALCULATOR_MARK = re.compile(r"<<[^<>]*>>")
_FINAL_LINE = re.compile(r"\n?####[^\n]*\s*\Z")
_HASHES = re.compile(r"^[ \t]*####[ \t]*(\S[^\n]*?)[ \t\r]*$", re.MULTILINE)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_BRACES = re.compile(r"\\[{}]|[{}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class MathGold:
    """The reference answer of a math problem, as written (LaTeX or plain)."""

    answer: str


class _Line(BaseModel):
    gold: Name | None = None
    reference: StrictStr | None = None

    @model_validator(mode="after")
    def _has_gold(self) -> "_Line":
        if self.gold is None and self.reference is None:
            raise ValueError("Field required (or a reference)")
        marked = _HASHES.findall(self.reference or "")
        if self.gold is not None and marked:
            given, referred = (re.sub(r"[\s,$]", "", text) for text in (self.gold, marked[-1]))
            if given != referred:
                raise ValueError(
                    f"the gold is not the answer of the reference ({marked[-1][:40]!r})"
                )
        return self


def _read_line(row: Mapping[str, Any]) -> MathGold:
    line = _Line.model_validate(row)
    return MathGold(answer=line.gold or reference_answer(line.reference or ""))


def reference_answer(reference: str) -> str:
    """The answer of a worked solution: its last ``#### 18``, else its last line, as ``A: 18``."""
    marked = _HASHES.findall(reference)
    last = marked[-1] if marked else reference.strip().rpartition("\n")[2].strip()
    return last.removeprefix("A:").strip()


def without_thousands(number: str) -> str:
    """``number`` without the commas between its groups of three digits; other commas stay."""
    return _THOUSANDS.sub(lambda found: found[0].replace(",", ""), number)


def _boxed_solution(gold: MathGold, solution: str) -> list[str]:
    r"""GSM8K's solution without calculator marks, its ``#### 72`` as ``\boxed{72}``."""
    text = _FINAL_LINE.sub("", _CALCULATOR_MARK.sub("", solution))
    boxed = last_boxed(text) == gold.answer
    return [text if boxed else f"{text}\n\\boxed{{{gold.answer}}}"]


def last_boxed(solution: str) -> str | None:
    r"""Content of the last ``\boxed{...}`` (or ``\fbox{...}``) with balanced braces, else None."""
    openings = [match.end() for match in re.finditer(r"\\(?:boxed|fbox)\s*\{", solution)]
    for start in reversed(openings):
        end = _closing_brace(solution, start)
        if end is not None:
            return solution[start:end].strip()
    return None


def _closing_brace(text: str, start: int) -> int | None:
    depth = 1
    for brace in _BRACES.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return brace.start()
    return None


MATH = Kind(
    name="math",
    gold=MathGold,
    instruction="Reason step by step, and put the final answer within \\boxed{}.",
    solution_texts=_boxed_solution,
    judge="pipeline_lib.verify.math.judge:open_judge",
    answer_form="pipeline_lib.verify.math.judge:answer_form",
    equality_trial=lambda first, second: (MathGold(answer=first), f"\\boxed{{{second}}}"),
    gold_check="pipeline_lib.verify.math.judge:open_gold_check",
    show_gold=lambda gold: gold.answer,
    read_line=_read_line,
    write_line=lambda gold: {"gold": gold.answer},
)
