"""Tables of the report of the main job."""

from collections.abc import Iterable, Mapping, Sequence

from pipeline_lib.problems.overlap import OverlapSample
from pipeline_lib.publish.reporting.run_compute import RunCompute, StageCosts, TokenCount
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import EMPTY, count, known_duration, percent, words
from pipeline_lib.study.policies import Flips, PathCounts


def flip_table(flips: Flips, *, limit: int) -> Table:
    """Problems whose pass@1 crossed one half, at most ``limit`` in each direction."""
    shown = [
        *(("gained", flip) for flip in flips.gained[:limit]),
        *(("lost", flip) for flip in flips.lost[:limit]),
    ]
    return Table(
        caption=(
            f"Problems that crossed one half: {len(flips.gained)} gained, {len(flips.lost)} lost"
        ),
        columns=("problem", "change", "before", "after"),
        rows=tuple(
            (flip.problem_id, direction, percent(flip.base), percent(flip.trained))
            for direction, flip in shown
        ),
    )


def status_table(policies: Mapping[str, PathCounts]) -> Table:
    """Paths by verdict status, one column per policy; only statuses that occur."""
    each = list(policies.values())

    def row(name: str, values: Iterable[float]) -> tuple[str, ...]:
        return (name, *(count(value) for value in values))

    statuses = dict.fromkeys(status for one in each for status in one.statuses)
    reasons = sorted({reason for one in each for reason in one.reasons})
    return Table(
        caption="Paths by status; failed requests and verifications are not scored",
        columns=("paths", *policies),
        rows=(
            *(
                row(words(one), (counts.statuses.get(one, 0) for counts in each))
                for one in statuses
            ),
            row("of these, not scored", (counts.unscored for counts in each)),
            *(
                row(f"not scored: {words(one)}", (counts.reasons.get(one, 0) for counts in each))
                for one in reasons
            ),
            ("truncated", *(percent(counts.truncated) for counts in each)),
            ("tokens per path", *(f"{counts.mean_tokens:.1f}" for counts in each)),
            row("problems left out", (counts.left_out for counts in each)),
        ),
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
