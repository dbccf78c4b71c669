"""Overlap of an evaluation set with the training questions, by shared 13-grams of words.

A report, not a filter: shared 13-grams are often the same theme with other numbers, which needs human
judgement. `splits` refuses exact repeats.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline_lib.records import Problem, Row

NGRAM_WORDS = 13
_MAX_SAMPLES = 20
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapReport:
    """Counts of problems that share at least one n-gram with the other side."""

    ngram_words: int
    num_train: int
    num_test: int
    touched_train: int
    touched_test: int
    samples: tuple[Row, ...]
    """``test_id``, ``train_id`` and the shared ``words`` of at most 20 test problems, in their order."""


def normalized_question(text: str) -> str:
    """The question after NFKC, case folding and collapsing of white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def overlap_report(train: Sequence[Problem], test: Sequence[Problem]) -> OverlapReport:
    """Compare the questions of two sets by runs of 13 words (letters and digits, case folded).

    A question of fewer than 13 words is one run, and so is one that is not prose (ARC).
    Time and memory are linear in the number of words.

    Source: the decontamination of GPT-3 (Brown et al. 2020, arXiv:2005.14165, appendix C).
    """
    tests_of: dict[str, list[int]] = {}
    for position, problem in enumerate(test):
        for ngram in set(_ngrams(problem)):
            tests_of.setdefault(ngram, []).append(position)
    touched_train = 0
    first_touch: dict[int, Row] = {}
    for problem in train:
        shared = [ngram for ngram in _ngrams(problem) if ngram in tests_of]
        touched_train += bool(shared)
        for ngram in shared:
            for position in tests_of[ngram]:
                ids = {"test_id": test[position].id, "train_id": problem.id}
                first_touch.setdefault(position, {**ids, "words": ngram})
    return OverlapReport(
        ngram_words=NGRAM_WORDS,
        num_train=len(train),
        num_test=len(test),
        touched_train=touched_train,
        touched_test=len(first_touch),
        samples=tuple(first_touch[position] for position in sorted(first_touch)[:_MAX_SAMPLES]),
    )


def _ngrams(problem: Problem) -> Iterator[str]:
    words = _WORD.findall(normalized_question(problem.question))
    if not problem.kind.prose_questions:
        yield " ".join(words)
        return
    for start in range(max(1, len(words) - NGRAM_WORDS + 1)):
        yield " ".join(words[start : start + NGRAM_WORDS])
