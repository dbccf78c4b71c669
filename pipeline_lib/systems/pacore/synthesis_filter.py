"""The second filter of questions: those whose syntheses by a model are neither all right nor all wrong.

RL learns nothing from the others: a group of equal rewards has no advantage.

Source: PaCoRe, arXiv:2601.05593: the second stage keeps questions by the accuracy of the first one's syntheses.
"""

from collections.abc import Sequence
from itertools import groupby

from pipeline_lib.engines.chat_model import ChatModel, Decoding, Request
from pipeline_lib.records import Row
from pipeline_lib.seeding import child_seed
from pipeline_lib.store.journal import Journal
from pipeline_lib.store.shards import split
from pipeline_lib.systems.pacore.message_cache import CachedQuestion
from pipeline_lib.train.phases import Progress
from pipeline_lib.verify.dispatch import Item, Verifier

OUTCOMES = ("failed", "unscored", "never_right", "always_right", "kept")
_SEEDS = "pacore-synthesis-filter"


def filter_by_syntheses(  # noqa: PLR0913 - what is drawn, and what judges and keeps it
    model: ChatModel,
    questions: Sequence[CachedQuestion],
    rows: Sequence[Row],
    *,
    decoding: Decoding,
    seed: int,
    together: int,
    verifier: Verifier,
    journal: Journal,
    progress: Progress | None = None,
) -> dict[str, str]:
    """Draw one synthesis per row; the outcome of each question with a row, one of `OUTCOMES`.

    Kept are the questions that have a right and a wrong one. A synthesis that the verifier cannot score is neither. A
    question with a failed call is drawn again by the next command, and a question in ``journal`` is not.

    Args:
        model: of the first stage.
        questions: with their golds.
        rows: online episodes of the questions: problem_id, prompt.
        decoding: of the syntheses.
        seed: root of their seeds.
        together: questions drawn at once; changes no result.
        verifier: judges the syntheses.
        journal: verdicts by question.
        progress: called with finished and all questions.

    Raises:
        EngineDownError: the server does not answer; finished questions are kept.
    """
    golds = {one.problem.id: one.problem.gold for one in questions}
    ordered = sorted(rows, key=lambda row: str(row["problem_id"]))
    prompts = {
        name: [str(row["prompt"]) for row in group]
        for name, group in groupby(ordered, key=lambda row: str(row["problem_id"]))
    }
    right = {name: piece["right"] for name, piece in journal.pieces.items()}
    failed: set[str] = set()
    for part in split([name for name in prompts if name not in right], together):
        asked = [(name, number) for name in part for number in range(len(prompts[name]))]
        requests = [
            Request(
                prompt=prompts[name][number],
                seeds=[child_seed(seed, _SEEDS, name, number)],
            )
            for name, number in asked
        ]
        drawn = [
            (name, one)
            for (name, _), [one] in zip(asked, model.complete(requests, decoding), strict=True)
        ]
        failed |= {name for name, one in drawn if one.error}
        scored = [(name, one.text) for name, one in drawn if name not in failed]
        verdicts = verifier.judge([Item(gold=golds[name], text=text) for name, text in scored])
        for (name, _), verdict in zip(scored, verdicts, strict=True):
            right.setdefault(name, []).append(verdict.strict)
        for name in dict.fromkeys(name for name, _ in scored):
            journal.add(name, {"right": right[name]})
        if progress is not None:
            progress(len(right) + len(failed), len(prompts), {})
    return {name: "failed" if name in failed else _outcome(right[name]) for name in prompts}


def _outcome(right: Sequence[bool | None]) -> str:
    scored = [one for one in right if one is not None]
    if not scored:
        return "unscored"
    if all(scored):
        return "always_right"
    return "kept" if any(scored) else "never_right"
