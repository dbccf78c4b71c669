"""What may be known of a path without its label: which answer it gives, and how sure the policy was."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from pipeline_lib.records import FinishReason, Path, Problem, Row
from pipeline_lib.sampling.prompts import render
from pipeline_lib.serving.chat_model import ChatFormat
from pipeline_lib.serving.scored_text import ScoredText, Scorer
from pipeline_lib.verification.answer_groups import AnswerBook
from pipeline_lib.verification.dispatch import Verifier

KIND = "measures"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathMeasure:
    """One row of the table."""

    problem_id: str
    index: int
    answer: int | None
    """Which of the distinct answers to the problem; None: it gives none."""
    self_certainty: float | None
    """None if it was not asked for."""

    def row(self) -> Row:
        """Flat form."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Self:
        """Inverse of :meth:`row`."""
        return cls(**row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescoring:
    """By whom paths are read once more, and in which template they were asked for."""

    scorer: Scorer
    chat_format: ChatFormat | None


def measure_paths(
    problems: Sequence[Problem],
    paths: Sequence[Path],
    verifier: Verifier,
    rescoring: Rescoring | None,
) -> list[PathMeasure]:
    """One measure a path, in order; those of one problem number its answers together."""
    asked = {problem.id: problem for problem in problems}
    books = {problem.id: AnswerBook(kind=problem.kind, verifier=verifier) for problem in problems}
    answers = [books[path.problem_id].number(path.text) for path in paths]
    certainties = _certainties(asked, paths, rescoring) if rescoring else [None] * len(paths)
    return [
        PathMeasure(
            problem_id=path.problem_id, index=path.index, answer=answer, self_certainty=certainty
        )
        for path, answer, certainty in zip(paths, answers, certainties, strict=True)
    ]


def _certainties(
    problems: dict[str, Problem], paths: Sequence[Path], rescoring: Rescoring
) -> list[float | None]:
    prompts = {name: render(one, rescoring.chat_format) for name, one in problems.items()}
    scores = rescoring.scorer.score(
        [
            ScoredText(
                prompt=prompts[path.problem_id],
                text=path.text,
                ended=path.finish_reason is FinishReason.STOP,
            )
            for path in paths
        ]
    )
    return [score.self_certainty for score in scores]
