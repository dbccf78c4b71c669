"""A comparison in words: the form of the pause, the artifact, and the lines of the command."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline_lib.publish.promotion.releases import Cost, Facts, Release
from pipeline_lib.study.pages.page import study_tables
from pipeline_lib.study.pages.tables import Table, markdown_tables
from pipeline_lib.study.pages.wording import (
    EMPTY,
    count,
    difference,
    known_duration,
    level,
    percent,
)
from pipeline_lib.study.policies import Compared

_FLIPS_SHOWN = 10
_FIRST_RELEASE = "No policy is released yet, so the candidate is compared with the base of its run."
_OTHER_TEMPLATES = "The two policies were asked with different prompt templates."
MAKING: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "cpu_seconds": ("CPU time of its run", known_duration),
    "gpu_seconds": ("GPU time of its run", known_duration),
    "trained_tokens": ("trained tokens", count),
    "drawn_tokens": ("sampled tokens", count),
}
"""Figures of the compute of a loop: name in metrics.json, words, and how it is shown."""


def title(scores: Compared) -> str:
    """Change of pass@1 in one line."""
    return f"Release? {scores.study.claims[0]}"


def description(
    scores: Compared, facts: Facts, costs: Sequence[Cost], *, same_prompts: bool
) -> str:
    """Gain with interval, flips and cost as Markdown: the text of the form."""
    first = [] if facts.replaces is not None else [_FIRST_RELEASE]
    prompts = [] if same_prompts else [_OTHER_TEMPLATES]
    sentences = [*first, *scores.study.claims[1:], *prompts]
    shown = markdown_tables([_gain_table(scores, facts), _cost_table(scores, costs)])
    return "\n\n".join([f"### {title(scores)}", *sentences, shown]) + "\n"


def details(scores: Compared, description: str) -> str:
    """The description, with scores and single flips: the text of the artifact."""
    flips = scores.flips.table(limit=_FLIPS_SHOWN)
    return f"{description}\n{markdown_tables([*study_tables(scores.study), flips])}\n"


def regression(facts: Facts) -> str:
    """One line for a candidate that is worse."""
    return (
        f"pass@1 of the candidate is below {facts.compared_with}: {difference(facts.gain)} points, "
        f"{level(facts.gain)} interval, {facts.gained} problems gained and {facts.lost} lost; it is "
        "not released"
    )


def _gain_table(scores: Compared, facts: Facts) -> Table:
    first, against = scores.study.headline, facts.compared_with
    assert first is not None
    return Table(
        caption=f"Candidate and {against} on the same {first.n} problems",
        columns=("what", "value"),
        rows=(
            (f"pass@1 of {against}", percent(first.of_reference)),
            ("pass@1 of the candidate", percent(first.of_arm)),
            (f"gain in points, {level(facts.gain)} interval", difference(facts.gain)),
            ("problems that crossed one half", f"{facts.gained} gained, {facts.lost} lost"),
        ),
    )


def _cost_table(scores: Compared, costs: Sequence[Cost]) -> Table:
    each = [one.counts for one in scores.scores]
    rows = [
        ("tokens per path", *(f"{counts.mean_tokens:.1f}" for counts in each)),
        ("truncated paths", *(percent(counts.truncated) for counts in each)),
        ("time per 1,000 paths", *(known_duration(one.seconds_per_1000_paths) for one in costs)),
        *(
            (what, *(EMPTY if one.making is None else shown(one.making[name]) for one in costs))
            for name, (what, shown) in MAKING.items()
        ),
    ]
    return Table(
        caption="Cost of using the policies and of making them",
        columns=("what", *(one.arm.base for one in scores.scores)),
        rows=tuple(rows),
    )


def release_table(releases: list[Release], current: Release | None) -> Table:
    """All releases, the current one marked."""
    return Table(
        caption="Releases",
        columns=("release", "made", "pass@1", "gain in points", "compared with", "policy"),
        rows=tuple(_release_row(one, is_current=one == current) for one in releases),
    )


def _release_row(release: Release, *, is_current: bool) -> tuple[str, ...]:
    record = release.record
    return (
        f"{record.number} (current)" if is_current else str(record.number),
        f"{record.released_at:%Y-%m-%d %H:%M} UTC",
        percent(record.facts.pass_at_1),
        difference(record.facts.gain),
        record.facts.compared_with,
        record.facts.policy,
    )
