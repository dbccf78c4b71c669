"""Judged paths with prefixes, written as letters, and scores of peers."""

from pipeline_lib.systems.classmate.cut import Prefix
from pipeline_lib.systems.classmate.evaluation.prefixes import Asked, CutPath

SHARE = 0.5


def cut_path(problem_id: str, prefix: str, *, right: bool, sample: int = 0) -> CutPath:
    """A path with one prefix."""
    cut = Prefix(text=prefix, kept=len(prefix.splitlines()), leaked=False)
    return CutPath(problem_id=problem_id, sample=sample, right=right, prefixes={SHARE: cut})


def scores_of(peer: str, table: dict[tuple[str, str], str]) -> dict[tuple[str, Asked], list]:
    """Scores from letters: c right, w wrong, ``.`` missing; by problem and prefix."""
    meaning = {"c": True, "w": False, ".": None}
    return {
        (peer, (problem, prefix)): [meaning[letter] for letter in letters]
        for (problem, prefix), letters in table.items()
    }
