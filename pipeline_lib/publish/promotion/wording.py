"""A comparison in words: the form of the pause, the artifact, and the lines of the command."""

from collections.abc import Callable

from pipeline_lib.publish.promotion.comparison import Compared
from pipeline_lib.publish.promotion.evaluated import Cost, Evaluated
from pipeline_lib.publish.promotion.releases import Facts, Release
from pipeline_lib.publish.reporting import tables
from pipeline_lib.publish.reporting.run_compute import TrainingCompute
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

_FLIPS_SHOWN = 10


def title(compared: Compared) -> str:
    """Change of pass@1 in one line."""
    return f"Release? {compared.scores.study.claims[0]}"


def description(compared: Compared) -> str:
    """Gain with interval, flips and cost as Markdown: the text of the form."""
    shown = markdown_tables([gain_table(compared), cost_table(compared)])
    return "\n\n".join([f"### {title(compared)}", *_sentences(compared), shown]) + "\n"


def details(compared: Compared) -> str:
    """The description, with scores and single flips: the text of the artifact."""
    flips = tables.flip_table(compared.scores.flips, limit=_FLIPS_SHOWN)
    more = [*study_tables(compared.scores.study), flips]
    return f"{description(compared)}\n{markdown_tables(more)}\n"


def regression(facts: Facts) -> str:
    """One line for a candidate that is worse."""
    return (
        f"pass@1 of the candidate is below {facts.compared_with}: {difference(facts.gain)} points, "
        f"{level(facts.gain)} interval, {facts.gained} problems gained and {facts.lost} lost; it is "
        "not released"
    )


def gain_table(compared: Compared) -> Table:
    """pass@1 of both sides, the gain, and the flips."""
    first, facts = compared.gain, compared.facts
    against = compared.reference.name
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


def cost_table(compared: Compared) -> Table:
    """Cost of using and of making both policies."""
    evaluated = (compared.reference, compared.candidate.evaluated)
    sides = [
        (one, scores.counts) for one, scores in zip(evaluated, compared.scores.scores, strict=True)
    ]
    rows = [
        ("tokens per path", *(f"{counts.mean_tokens:.1f}" for _, counts in sides)),
        ("truncated paths", *(percent(counts.truncated) for _, counts in sides)),
        ("time per 1,000 paths", *(_drawing(side.cost) for side, _ in sides)),
        *((what, *(_making(side, read) for side, _ in sides)) for what, read in _MAKING),
    ]
    return Table(
        caption="Cost of using the policies and of making them",
        columns=("what", *(side.name for side, _ in sides)),
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


def _sentences(compared: Compared) -> list[str]:
    first = [] if compared.released is not None else [_FIRST_RELEASE]
    prompts = [] if compared.same_templates else [_OTHER_TEMPLATES]
    return [*first, *compared.scores.study.claims[1:], *prompts]


_FIRST_RELEASE = "No policy is released yet, so the candidate is compared with the base of its run."
_OTHER_TEMPLATES = "The two policies were asked with different prompt templates."


def _drawing(cost: Cost) -> str:
    return known_duration(cost.seconds_per_1000_paths)


def _making(side: Evaluated, read: Callable[[TrainingCompute], str]) -> str:
    return read(side.cost.making) if side.cost.making is not None else EMPTY


_MAKING: tuple[tuple[str, Callable[[TrainingCompute], str]], ...] = (
    ("CPU time of its run", lambda spent: known_duration(spent.cpu_seconds)),
    ("GPU time of its run", lambda spent: known_duration(spent.gpu_seconds)),
    ("trained tokens", lambda spent: count(spent.trained_tokens)),
    ("sampled tokens", lambda spent: count(spent.drawn_tokens)),
)
