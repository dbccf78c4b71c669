"""Tables of the report of the main job."""

from collections.abc import Mapping, Sequence

from pipeline_lib.problems.overlap import OverlapSample
from pipeline_lib.publish.reporting.metrics_file import StageCosts, TokenCount
from pipeline_lib.publish.reporting.run_compute import RunCompute
from pipeline_lib.records import Interval
from pipeline_lib.study.comparison import Comparison
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import (
    EMPTY,
    count,
    difference,
    known_duration,
    level,
    p_value,
    percent,
    score,
    words,
)
from pipeline_lib.study.result import EvaluationResult, FurtherResults
from pipeline_lib.study.statistics.paired import PairedDifference
from pipeline_lib.study.summary import EvalSummary
from pipeline_lib.verdicts import Status


def score_table(summaries: Mapping[str, EvalSummary]) -> Table:
    """pass@k (strict and lenient), maj@k and single-path accuracy, one column per policy."""
    each = list(summaries.values())
    first = each[0]
    max_k = max(first.ks)
    rows = [
        *((f"pass@{k}", *(score(one.strict[k]) for one in each)) for k in first.ks),
        *((f"pass@{k}, lenient", *(score(one.lenient[k]) for one in each)) for k in first.ks),
        (f"maj@{max_k}", *(_optional_score(one.majority) for one in each)),
        ("one path", *(score(one.single) for one in each)),
        ("truncated", *(percent(one.truncated_fraction) for one in each)),
        ("tokens per path", *(f"{one.mean_completion_tokens:.1f}" for one in each)),
    ]
    return Table(
        caption=f"Scores with {level(first.single)} intervals over {first.num_problems} problems",
        columns=("score", *summaries),
        rows=tuple(rows),
    )


def temperature_table(
    result: EvaluationResult, further: FurtherResults, *, temperature: float
) -> Table:
    """pass@k of every policy and baseline by temperature, and the trained policy's difference to it.

    Args:
        result: result at ``temperature``.
        further: results at further temperatures, and baselines.
        temperature: that of sampling.
    """
    rows: list[tuple[str, ...]] = []
    for value, found in {temperature: result, **further.temperatures}.items():
        compared: list[tuple[str, EvalSummary, Comparison | None]] = [
            (one.name, one.summary, one.comparison)
            for one in further.baselines
            if one.temperature == value
        ]
        compared.append(("base", found.base, found.comparison))
        if found.control is not None:
            compared.append(("control", found.control, found.over_control))
        compared.append(("trained", found.trained, None))
        rows += (
            (
                f"{value:g}",
                name,
                *(score(summary.strict[k]) for k in summary.ks),
                score(summary.lenient[1]),
                percent(summary.truncated_fraction),
                difference(over.strict[1].interval) if over else EMPTY,
            )
            for name, summary, over in compared
        )
    return Table(
        caption="Scores by temperature, and trained minus each in points of pass@1",
        columns=(
            "temperature",
            "policy",
            *(f"pass@{k}" for k in result.base.ks),
            "pass@1, lenient",
            "truncated",
            "trained minus it",
        ),
        rows=tuple(rows),
    )


def policy_table(summary: EvalSummary) -> Table:
    """Strict and lenient scores of one policy."""
    return Table(
        caption=f"Scores with {level(summary.single)} intervals over {summary.num_problems} problems",
        columns=("score", "strict", "lenient"),
        rows=tuple(
            (f"pass@{k}", score(summary.strict[k]), score(summary.lenient[k])) for k in summary.ks
        ),
    )


def _optional_score(interval: Interval | None) -> str:
    return score(interval) if interval is not None else EMPTY


def paired_table(comparison: Comparison, *, against: str = "base") -> Table:
    """Trained minus ``against`` in points on the same problems, with findings."""
    named = {
        **{f"pass@{k}": found for k, found in comparison.strict.items()},
        **{f"pass@{k}, lenient": found for k, found in comparison.lenient.items()},
    }
    return Table(
        caption=(
            f"Trained minus {against}, in points, on the same {comparison.num_problems} problems"
        ),
        columns=("score", "difference", "p", "finding"),
        rows=tuple(_paired_row(name, found) for name, found in named.items()),
    )


def paired_tables(result: EvaluationResult) -> list[Table]:
    """Tables of trained minus control, if there is one, and of trained minus base."""
    over = result.over_control
    first = [paired_table(over, against="control")] if over is not None else []
    return [*first, paired_table(result.comparison)]


def _paired_row(name: str, found: PairedDifference) -> tuple[str, ...]:
    return (name, difference(found.interval), p_value(found.p_value), found.finding.value)


def split_table(comparison: Comparison) -> Table:
    """The pass@1 difference split into answers and format."""
    parts = {
        "answers (lenient)": comparison.lenient[1],
        "format (strict minus lenient)": comparison.format_share,
        "both (strict)": comparison.strict[1],
    }
    return Table(
        caption="Difference of pass@1 by cause, in points",
        columns=("part", "difference", "finding"),
        rows=tuple(
            (name, difference(found.interval), found.finding.value) for name, found in parts.items()
        ),
    )


def flip_table(comparison: Comparison, *, limit: int) -> Table:
    """Problems whose pass@1 crossed one half, at most ``limit`` in each direction."""
    flips = [
        *(("gained", flip) for flip in comparison.gained[:limit]),
        *(("lost", flip) for flip in comparison.lost[:limit]),
    ]
    return Table(
        caption=(
            f"Problems that crossed one half: {len(comparison.gained)} gained, "
            f"{len(comparison.lost)} lost"
        ),
        columns=("problem", "change", "base", "trained"),
        rows=tuple(
            (flip.problem_id, direction, percent(flip.base), percent(flip.trained))
            for direction, flip in flips
        ),
    )


def status_table(summaries: Mapping[str, EvalSummary]) -> Table:
    """Paths by verdict status, one column per policy; only statuses that occur."""
    each = list(summaries.values())
    shown = [status for status in Status if any(one.statuses[status] for one in each)]
    rows = [
        (words(status.value), *(count(one.statuses[status]) for one in each)) for status in shown
    ]
    failures = ("of these, not scored", *(count(one.num_unscored) for one in each))
    reasons = sorted({reason for one in each for reason in one.unscored})
    because = [
        (f"not scored: {words(reason)}", *(count(one.unscored.get(reason, 0)) for one in each))
        for reason in reasons
    ]
    left_out = ("problems left out", *(count(one.num_left_out) for one in each))
    return Table(
        caption="Paths by status; failed requests and verifications are not scored",
        columns=("paths", *summaries),
        rows=(*rows, failures, *because, left_out),
    )


def run_compute_table(spent: RunCompute) -> Table:
    """Seconds and tokens of loop and control."""
    columns = {"loop": spent.loop, "control": spent.control}
    each = {name: found for name, found in columns.items() if found is not None}
    return Table(
        caption="Compute of the loop (sampling, verifying, training) and of the control",
        columns=("what", *each),
        rows=(
            ("CPU time", *(known_duration(found.cpu_seconds) for found in each.values())),
            ("GPU time", *(known_duration(found.gpu_seconds) for found in each.values())),
            ("trained tokens", *(count(found.trained_tokens) for found in each.values())),
            ("sampled tokens", *(count(found.drawn_tokens) for found in each.values())),
        ),
    )


def cost_table(costs: StageCosts) -> Table:
    """Seconds, tokens and peak memory by stage; stages may overlap, so the total is not a sum."""
    seconds, tokens, peaks = costs.seconds, costs.tokens, costs.peaks_mib
    stages = [*seconds, *(stage for stage in tokens if stage not in seconds)]
    all_tokens = TokenCount(
        prompt=sum(spent.prompt for spent in tokens.values()),
        completion=sum(spent.completion for spent in tokens.values()),
    )
    return Table(
        caption="Time, tokens and memory of the largest process by stage (stages may overlap)",
        columns=("stage", "time", "prompt tokens", "completion tokens", "peak memory"),
        rows=(
            *(
                _cost_row(stage, seconds.get(stage), tokens.get(stage), peaks.get(stage))
                for stage in stages
            ),
            _cost_row("total", costs.total_seconds, all_tokens, max(peaks.values(), default=None)),
        ),
    )


def _cost_row(
    name: str, seconds: float | None, tokens: TokenCount | None, peak_mib: int | None
) -> tuple[str, ...]:
    return (
        name,
        known_duration(seconds),
        count(tokens.prompt) if tokens is not None else EMPTY,
        count(tokens.completion) if tokens is not None else EMPTY,
        f"{count(peak_mib)} MiB" if peak_mib is not None else EMPTY,
    )


def overlap_table(samples: Sequence[OverlapSample]) -> Table:
    """Word runs shared by test and train questions, one per test problem."""
    return Table(
        caption="Word runs shared by test and train questions",
        columns=("test problem", "train problem", "shared words"),
        rows=tuple((sample.test_id, sample.train_id, sample.words) for sample in samples),
    )
