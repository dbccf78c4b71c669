"""Summary of the verdicts on a file: scores, agreement with labels, and the format audit.

The audit lists right answers that only the strict score refuses, to separate a gain in format from
a gain in reasoning.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline_lib.verdicts import Verdict
from pipeline_lib.verification.lines.format import Line

MAX_SAMPLES = 20
MAX_TAIL_CHARS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSample:
    """One right answer in another format."""

    id: str
    rule: str | None
    extracted: str | None
    tail: str
    """The end of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatAudit:
    """Answers that the strict score refuses and the lenient one accepts."""

    num_refused: int
    by_rule: Mapping[str, int]
    samples: tuple[AuditSample, ...]
    unscored_ids: Mapping[str, tuple[str, ...]]
    """The first ids of lines without a score, by status and reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAgreement:
    """Agreement of the lenient score with the publisher's labels, over lines that have both."""

    num_labelled: int
    num_agree: int
    disagreeing_ids: tuple[str, ...]
    num_refused_but_right: int
    """Labelled false, but right."""

    @property
    def rate(self) -> float:
        """Share of labelled lines on which both agree."""
        return self.num_agree / self.num_labelled


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSummary:
    """Metrics of one file."""

    num_lines: int
    num_scored: int
    """Lines with a score; failures of the verifier are excluded."""
    by_status: Mapping[str, int]
    by_rule: Mapping[str, int]
    unscored: Mapping[str, int]
    """Lines without a score, by status and reason."""
    num_strict: int
    num_lenient: int
    seconds: float
    """Sum over all verdicts; with several workers more than wall-clock time."""
    audit: FormatAudit
    agreement: LabelAgreement | None
    """None if no line has a label."""

    @property
    def strict_rate(self) -> float | None:
        """Share of scored lines that are right in the requested format; None if none was scored."""
        return self.num_strict / self.num_scored if self.num_scored else None

    @property
    def lenient_rate(self) -> float | None:
        """Share of scored lines that are right; None if none was scored."""
        return self.num_lenient / self.num_scored if self.num_scored else None


@dataclass(slots=True, kw_only=True)
class LineTally:
    """Running counts over the lines of a file."""

    statuses: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    refused_rules: Counter[str] = field(default_factory=Counter)
    unscored: Counter[str] = field(default_factory=Counter)
    unscored_ids: dict[str, list[str]] = field(default_factory=dict)
    samples: list[AuditSample] = field(default_factory=list)
    disagreeing_ids: list[str] = field(default_factory=list)
    num_labelled: int = 0
    num_refused_but_right: int = 0
    num_scored: int = 0
    num_strict: int = 0
    num_lenient: int = 0
    seconds: float = 0.0

    def add(self, line: Line, verdict: Verdict) -> None:
        """Add one line."""
        rule = verdict.rule or "none"
        self.statuses[verdict.status.value] += 1
        self.rules[rule] += 1
        self.seconds += verdict.seconds
        if verdict.lenient is None:
            reason = verdict.reason or ""
            self.unscored[reason] += 1
            ids = self.unscored_ids.setdefault(reason, [])
            ids.extend([line.id] * (len(ids) < MAX_SAMPLES))
            return
        self.num_scored += 1
        self.num_strict += bool(verdict.strict)
        self.num_lenient += verdict.lenient
        if verdict.lenient and not verdict.strict:
            self._add_refused(line, verdict, rule)
        if line.label is not None:
            self._add_labelled(line, right=verdict.lenient)

    def _add_refused(self, line: Line, verdict: Verdict, rule: str) -> None:
        self.refused_rules[rule] += 1
        if len(self.samples) < MAX_SAMPLES:
            tail = (line.text or "")[-MAX_TAIL_CHARS:]
            self.samples.append(
                AuditSample(id=line.id, rule=rule, extracted=verdict.extracted, tail=tail)
            )

    def _add_labelled(self, line: Line, *, right: bool) -> None:
        self.num_labelled += 1
        if right != line.label:
            self.disagreeing_ids.append(line.id)
            self.num_refused_but_right += right

    def summary(self) -> LineSummary:
        """The metrics of the lines added so far."""
        return LineSummary(
            num_lines=self.statuses.total(),
            num_scored=self.num_scored,
            by_status=dict(self.statuses.most_common()),
            by_rule=dict(self.rules.most_common()),
            unscored=dict(self.unscored.most_common()),
            num_strict=self.num_strict,
            num_lenient=self.num_lenient,
            seconds=self.seconds,
            audit=FormatAudit(
                num_refused=self.refused_rules.total(),
                by_rule=dict(self.refused_rules.most_common()),
                samples=tuple(self.samples),
                unscored_ids={name: tuple(ids) for name, ids in self.unscored_ids.items()},
            ),
            agreement=self._agreement(),
        )

    def _agreement(self) -> LabelAgreement | None:
        if not self.num_labelled:
            return None
        return LabelAgreement(
            num_labelled=self.num_labelled,
            num_agree=self.num_labelled - len(self.disagreeing_ids),
            disagreeing_ids=tuple(self.disagreeing_ids),
            num_refused_but_right=self.num_refused_but_right,
        )
