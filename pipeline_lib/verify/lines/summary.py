"""Summary of the verdicts on a file: scores, agreement with labels, and the format audit.

The audit lists right answers that only the strict score refuses, to separate a gain in format from
a gain in reasoning.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.lines.format import Line

MAX_SAMPLES = 20
MAX_TAIL_CHARS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSample:
    """One right answer in another format."""

    id: str
    rule: str
    tail: str
    """The end of the text."""


@dataclass(slots=True)
class LineSummary:
    """Metrics of the lines of one file that were added so far."""

    by_status: Counter[str] = field(default_factory=Counter)
    by_rule: Counter[str] = field(default_factory=Counter)
    unscored_ids: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Lines without a score, because the verifier failed, by status and reason."""
    num_strict: int = 0
    num_lenient: int = 0
    refused_by_rule: Counter[str] = field(default_factory=Counter)
    """Answers that the strict score refuses and the lenient one accepts."""
    samples: list[AuditSample] = field(default_factory=list)
    """The first of them."""
    num_labelled: int = 0
    """Lines with a score and the publisher's label."""
    disagreeing_ids: list[str] = field(default_factory=list)
    """The ones whose lenient score is not the label."""
    num_labelled_wrong_but_right: int = 0
    seconds: float = 0.0
    """Sum over all verdicts; with several workers more than wall-clock time."""

    @property
    def num_lines(self) -> int:
        """All lines."""
        return self.by_status.total()

    @property
    def num_scored(self) -> int:
        """Lines with a score."""
        return self.num_lines - sum(map(len, self.unscored_ids.values()))

    def add(self, line: Line, verdict: Verdict) -> None:
        """Add one line."""
        rule = verdict.rule or "none"
        self.by_status[verdict.status.value] += 1
        self.by_rule[rule] += 1
        self.seconds += verdict.seconds
        if verdict.lenient is None:
            self.unscored_ids[verdict.reason or ""].append(line.id)
            return
        self.num_strict += bool(verdict.strict)
        self.num_lenient += verdict.lenient
        if verdict.lenient and not verdict.strict:
            self.refused_by_rule[rule] += 1
            if len(self.samples) < MAX_SAMPLES:
                tail = (line.text or "")[-MAX_TAIL_CHARS:]
                self.samples.append(AuditSample(id=line.id, rule=rule, tail=tail))
        if line.label is not None:
            self.num_labelled += 1
            if verdict.lenient != line.label:
                self.disagreeing_ids.append(line.id)
                self.num_labelled_wrong_but_right += verdict.lenient
