"""Label-free measures of paths: the number of the answer, and the policy's self-certainty."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from pipeline_lib.engines.chat_model import ChatFormat, Conversation, Message, ScoredText, Scorer
from pipeline_lib.records import FinishReason, Path, Problem, Row
from pipeline_lib.sampling.prompts import messages_in_words, render
from pipeline_lib.verify.dispatch import AnswerBook, Verifier

KIND = "measures"
RewardOf = Callable[[Sequence[Conversation]], Sequence[float]]
"""Rewards of the last turns of conversations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathMeasure:
    """Measures of one path."""

    problem_id: str
    index: int
    answer: int | None
    """Number of its answer among the problem's distinct answers; None without an answer."""
    self_certainty: float | None
    """None if not requested."""
    reward: float | None = None
    """By a reward model; None if not requested."""

    def row(self) -> Row:
        """Flat form."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Self:
        """Inverse of :meth:`row`."""
        return cls(**row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescoring:
    """Scorer of sampled paths, and the chat format of their prompts."""

    scorer: Scorer
    chat_format: ChatFormat | None


def measure_paths(
    problems: Sequence[Problem],
    paths: Sequence[Path],
    verifier: Verifier,
    rescoring: Rescoring | None,
    reward: RewardOf | None = None,
) -> list[PathMeasure]:
    """One measure per path, in order; answers are numbered per problem."""
    asked = {problem.id: problem for problem in problems}
    books = {problem.id: AnswerBook(kind=problem.kind, verifier=verifier) for problem in problems}
    answers = [books[path.problem_id].number(path.text) for path in paths]
    unknown: list[float | None] = [None] * len(paths)
    certainties = _certainties(asked, paths, rescoring) if rescoring else unknown
    rewards: Sequence[float | None] = unknown
    if reward is not None:
        rewards = reward(
            [
                (
                    *messages_in_words(asked[path.problem_id]),
                    Message.assistant(path.text),
                )
                for path in paths
            ]
        )
    return [
        PathMeasure(
            problem_id=path.problem_id,
            index=path.index,
            answer=answer,
            self_certainty=certainty,
            reward=value,
        )
        for path, answer, certainty, value in zip(paths, answers, certainties, rewards, strict=True)
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
