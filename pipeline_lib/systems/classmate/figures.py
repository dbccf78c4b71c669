"""Figures of a draw, by the names of the training log; one without a value is left out."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from pipeline_lib.systems.classmate.cut import Prefix
from pipeline_lib.systems.classmate.fusion import Fused
from pipeline_lib.systems.classmate.inquiry import Answered


def draw_figures(
    prefixes: Sequence[Prefix | None], answered: Answered, fused: Fused
) -> dict[str, float]:
    """Means over the paths of a draw that have the number.

    ``lift`` is the score less the success from the empty prefix, over paths and peers; ``unique_share``
    the number of prefixes asked per path that was drawn; ``failure_rate`` is over all continuations of
    the draw.
    """
    cut = [prefix for prefix in prefixes if prefix is not None]
    by_path = [
        [score for score in scores if score is not None]
        for scores in zip(*answered.scores.values(), strict=True)
    ]
    lifts = [
        score - without
        for name, scores in answered.scores.items()
        for score, without in zip(scores, answered.empty[name], strict=True)
        if score is not None and without is not None
    ]
    means = {
        "base_reward": _mean(fused.base),
        **{f"classmate_scores/{name}": _mean(found) for name, found in answered.scores.items()},
        "best_classmate_score": _mean(max(scores) for scores in by_path if scores),
        "avg_classmate_score": _mean(fmean(scores) for scores in by_path if scores),
        "final_reward": _mean(fused.reward),
        "lift": _mean(lifts),
        **{f"failure_rate/{name}": rate for name, rate in answered.failure_rates.items()},
        "leak_rate": _mean(float(prefix.leaked) for prefix in cut),
        "empty_prefix_rate": _mean(float(not prefix.kept) for prefix in cut),
        "kept_steps": _mean(float(prefix.kept) for prefix in cut),
        "unique_share": len(answered.prefixes) / len(cut) if cut else None,
    }
    return {name: value for name, value in means.items() if value is not None}


def _mean(numbers: Iterable[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return fmean(known) if known else None
