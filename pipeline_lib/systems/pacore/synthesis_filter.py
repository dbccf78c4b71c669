"""The second filter of questions: those whose syntheses by a model are neither all right nor all wrong.

RL learns nothing from the others: a group of equal rewards has no advantage.

Source: PaCoRe, arXiv:2601.05593: the second stage keeps questions by the accuracy of the first one's syntheses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pipeline_lib.engines.chat_model import ChatModel, Decoding, Request
from pipeline_lib.records import Row
from pipeline_lib.seeding import child_seed
from pipeline_lib.store.journal import Journal
from pipeline_lib.store.shards import split
from pipeline_lib.systems.pacore.episodes import JudgedQuestion
from pipeline_lib.train.phases import Progress
from pipeline_lib.verify.dispatch import Item, Verifier

_SEEDS = "pacore-synthesis-filter"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterContext:
    """Settings of the draws, and what judges and keeps them."""

    decoding: Decoding
    seed: int
    together: int
    """Questions drawn at once; changes no result."""
    verifier: Verifier
    journal: Journal
    """Verdicts by question; those in it are not drawn again."""
    progress: Progress | None = None
    """Called with finished and all questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredQuestions:
    """Ids of the kept questions, and counts of those with a synthesis by outcome."""

    kept: frozenset[str]
    counts: dict[str, int]


def filter_by_syntheses(
    model: ChatModel,
    questions: Sequence[JudgedQuestion],
    rows: Sequence[Row],
    context: FilterContext,
) -> FilteredQuestions:
    """Draw one synthesis per row; keep the questions that have a right and a wrong one.

    A synthesis that the verifier cannot score is neither. A question with a failed call is not kept, but counted, and
    drawn again by the next command.

    Args:
        model: of the first stage.
        questions: those without a row are not kept.
        rows: online episodes of the questions: problem_id, prompt.
        context: settings, verifier and journal.

    Raises:
        EngineDownError: the server does not answer; finished questions are kept.
    """
    golds = {one.cached.problem.id: one.cached.problem.gold for one in questions}
    ordered = sorted(rows, key=lambda row: str(row["problem_id"]))
    prompts = {
        name: [str(row["prompt"]) for row in group]
        for name, group in groupby(ordered, key=lambda row: str(row["problem_id"]))
    }
    right = {name: piece["right"] for name, piece in context.journal.pieces.items()}
    failed: set[str] = set()
    for part in split([name for name in prompts if name not in right], context.together):
        asked = [(name, number) for name in part for number in range(len(prompts[name]))]
        requests = [
            Request(
                prompt=prompts[name][number],
                seeds=[child_seed(context.seed, _SEEDS, name, number)],
            )
            for name, number in asked
        ]
        drawn = [one for [one] in model.complete(requests, context.decoding)]
        failed |= {name for (name, _), one in zip(asked, drawn, strict=True) if one.error}
        texts = [
            (name, one.text)
            for (name, _), one in zip(asked, drawn, strict=True)
            if name not in failed
        ]
        items = [Item(gold=golds[name], text=text) for name, text in texts]
        verdicts = zip(texts, context.verifier.judge(items), strict=True)
        for name, group in groupby(verdicts, key=lambda entry: entry[0][0]):
            right[name] = [verdict.strict for _, verdict in group]
            context.journal.add(name, {"right": right[name]})
        if context.progress is not None:
            context.progress(len(right) + len(failed), len(prompts), {})
    outcomes = {name: "failed" if name in failed else _outcome(right[name]) for name in prompts}
    found = list(outcomes.values())
    return FilteredQuestions(
        kept=frozenset(name for name, outcome in outcomes.items() if outcome == "kept"),
        counts={
            f"syntheses_{name}": found.count(name)
            for name in ("failed", "unscored", "never_right", "always_right", "kept")
        },
    )


def _outcome(right: Sequence[bool | None]) -> str:
    scored = [one for one in right if one is not None]
    if not scored:
        return "unscored"
    if all(scored):
        return "always_right"
    return "kept" if any(scored) else "never_right"
