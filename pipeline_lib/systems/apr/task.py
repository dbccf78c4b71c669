"""The seam between models of threads and what they work on: Countdown, or questions in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipeline_lib.errors import BadInputError, reason_of
from pipeline_lib.own.code import TASKS, find_function
from pipeline_lib.own.program import imported
from pipeline_lib.records import Problem
from pipeline_lib.systems.apr.threads import Limits, Rollout, TextTokens, ThreadGrammar

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdict on a rollout."""

    claim: str | None
    """The parent's answer, as it wrote it; None without one."""
    answer: str | None
    """Canonical form of the claim, for votes: equal forms are right or wrong alike."""
    is_right: bool
    measures: Mapping[str, float] = field(default_factory=dict)
    """Further figures by name, where they are defined: shares, or 0 and 1."""


class ThreadTask(Protocol):
    """Prompts and texts of a model's threads, and what is right."""

    @property
    def grammar(self) -> ThreadGrammar:
        """Of its texts."""

    @property
    def tokens(self) -> TextTokens:
        """Of prompts on the wire."""

    @property
    def limits(self) -> Limits:
        """Of the threads of each rollout."""

    def wire(self, text: str) -> str:
        """The prompt of a text, as it is sent."""

    def prompt(self, problem: Problem, condition: str) -> str:
        """The text of a parent before its first draw, with ``condition`` before it."""

    def judge(
        self, rollouts: Sequence[Rollout], problems: Mapping[str, Problem]
    ) -> list[Judged | str]:
        """The verdicts on rollouts, in their order, or the reasons why there is none; ``problems`` by `Root.problem_id`.

        There is none if the parent failed, or the verifier did.
        """


def rollout_row(rollout: Rollout, judged: Judged | str) -> Row:
    """A rollout as a plain dictionary: see `rollouts.rollout_fun`."""
    if isinstance(judged, str):
        return {"seqs": [], "is_correct": False, "error": judged}
    failed = {} if rollout.child_error is None else {"child_error": rollout.child_error}
    return {
        "seqs": [sequence.row() for sequence in rollout.sequences],
        "is_correct": judged.is_right,
        "claim": judged.claim,
        **failed,
    }


def evaluated_row(rollout: Rollout, judged: Judged | str) -> Row:
    """A row of rollouts.jsonl: as `rollout_row`, with names, counts, and without token ids.

    Ids and log-probabilities are left out: engines round differently, and the file is compared.
    """
    plain = rollout_row(rollout, judged)
    for sequence in plain["seqs"]:
        sequence.pop("output_ids", None)
        sequence.pop("logprobs", None)
    return {
        "problem_id": rollout.root.problem_id,
        "sample": rollout.root.sample,
        **plain,
        "answer": None if isinstance(judged, str) else judged.answer,
        "measures": {} if isinstance(judged, str) else dict(judged.measures),
        **counts_of(rollout),
    }


def counts_of(rollout: Rollout) -> Row:
    """The end of a rollout, its tokens and its events."""
    return {
        "end": rollout.end.value,
        "tokens": {
            "drawn": rollout.cost.completion_tokens,
            "critical": rollout.cost.critical_tokens,
            "total": rollout.total_tokens,
            "longest": rollout.longest_tokens,
        },
        "events": {event.value: count for event, count in sorted((+rollout.events).items())},
    }


def load_named(name: str, *, key: str) -> Any:
    """The object ``FILE.py:name`` or ``module:name``, imported into this process: it is used for every token.

    Raises:
        BadInputError: there is none, or its file cannot be imported.
    """
    found = find_function(name, key=key, group=TASKS)
    try:
        return getattr(imported(found.source.file, found.source.module), found.name)
    except Exception as error:
        raise BadInputError(f"{key}={name}: cannot be imported: {reason_of(error)}") from error
