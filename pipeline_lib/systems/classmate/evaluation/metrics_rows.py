"""Contents of classmate.json."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pipeline_lib.records import Interval
from pipeline_lib.systems.classmate.evaluation.figures import (
    PolicyComparison,
    PolicyFigures,
    bounds,
    difference_bounds,
)


def metrics_content(
    figures: Sequence[PolicyFigures],
    compared: Sequence[PolicyComparison],
    empty: Mapping[str, Interval | None],
    failed: Mapping[str, float],
    held_out: Collection[str],
) -> dict[str, Any]:
    """Policies, peers and comparisons, as in the file."""
    return {
        "policies": {one.name: _policy_row(one) for one in figures},
        "peers": {
            name: {
                "held_out": name in held_out,
                "empty_prefix": bounds(interval),
                "failed": failed[name],
            }
            for name, interval in empty.items()
        },
        "comparisons": [comparison_row(one) for one in compared],
    }


def _policy_row(one: PolicyFigures) -> dict[str, Any]:
    return {
        "accuracy": bounds(one.summary.strict[1]),
        **{f"pass_at_{k}": bounds(interval) for k, interval in one.summary.strict.items() if k > 1},
        "mean_tokens": one.summary.mean_completion_tokens,
        "unscored_paths": one.summary.num_unscored,
        "left_out_problems": one.summary.num_left_out,
        "classmate_success": {
            peer: {
                share: {which: bounds(found) for which, found in sets.items()}
                for share, sets in shares.items()
            }
            for peer, shares in one.success.items()
        },
        "shuffled_question": {
            peer: {share: bounds(found) for share, found in shares.items()}
            for peer, shares in one.shuffled.items()
        },
        "spread_of_right_prefixes": {
            peer: {
                share: found and {"sd": found.sd, "mean": found.mean, "problems": found.problems}
                for share, found in shares.items()
            }
            for peer, shares in one.spread.items()
        },
        "leak_rate": dict(one.leaks),
        "kept_steps": dict(one.kept_steps),
    }


def comparison_row(one: PolicyComparison) -> dict[str, Any]:
    """``classmate_success`` is over all paths, the other two over right and over wrong ones."""

    def success(which: str) -> dict[str, Any]:
        return {
            peer: {share: difference_bounds(sets[which]) for share, sets in shares.items()}
            for peer, shares in one.success.items()
        }

    return {
        "policy": one.policy,
        "reference": one.reference,
        "accuracy": difference_bounds(one.pass_at[1]),
        **{f"pass_at_{k}": difference_bounds(found) for k, found in one.pass_at.items() if k > 1},
        "classmate_success": success("all"),
        "classmate_success_right": success("right"),
        "classmate_success_wrong": success("wrong"),
    }
