"""Verification of files of answers: one verdict per line, or groups for building and evaluating.

The whole file is validated before the first answer is judged, then streamed in chunks, so a file
may be larger than memory. The format of a line is in `lines.format`.
"""

import itertools
import pathlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Group, JudgedPath, Path, Problem, Provenance, Row
from pipeline_lib.store.files import check_output, write_json_lines
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import Item, Verifier, open_verifier
from pipeline_lib.verify.lines.format import Line, read_lines

MAX_SAMPLES = 20
MAX_TAIL_CHARS = 160
CHUNK_LINES = 2_048
"""At the end of each chunk the last stragglers are waited for."""
UNKNOWN = "recorded"
"""Value of provenance fields that a file does not give."""

OnProgress = Callable[[int, int], None]
"""Called with the number of judged lines and of all lines."""


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
    samples: list[Row] = field(default_factory=list)
    """Id, rule and end of the text of the first of them, to separate a gain in format from one in reasoning."""
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
                self.samples.append({"id": line.id, "rule": rule, "tail": tail})
        if line.label is not None:
            self.num_labelled += 1
            if verdict.lenient != line.label:
                self.disagreeing_ids.append(line.id)
                self.num_labelled_wrong_but_right += verdict.lenient


def verdict_row(name: str, verdict: Verdict) -> Row:
    """The output line of one answer, without its seconds."""
    return {"id": name, **verdict.row()}


def verify_lines(
    source: pathlib.Path,
    output: pathlib.Path,
    params: VerifyParams,
    *,
    workers: int = 1,
    on_progress: OnProgress | None = None,
) -> LineSummary:
    """Judge ``source`` and write one verdict per line to ``output``, in order.

    Raises:
        BadInputError: a line cannot be used, two have one id, or ``output`` cannot be written or is
            ``source``; nothing is judged or written.
        SandboxUnavailableError: there is code to judge and no sandbox tier is available.
    """
    check_output(output, source=source)
    summary = LineSummary()

    def rows() -> Iterator[Row]:
        for line, verdict in _judged(source, params, workers=workers, on_progress=on_progress):
            summary.add(line, verdict)
            yield {**verdict_row(line.id, verdict), "seconds": round(verdict.seconds, 6)}

    write_json_lines(output, rows())
    return summary


def groups_from_lines(
    source: pathlib.Path,
    params: VerifyParams,
    *,
    workers: int = 1,
    on_progress: OnProgress | None = None,
) -> list[Group]:
    """Judge ``source``; one group per ``problem_id``, problems and paths in the order of the lines.

    Raises:
        BadInputError: a line cannot be used, two have one id, or lines of one problem differ in question or gold.
        SandboxUnavailableError: there is code to judge and no sandbox tier is available.
    """
    problems = _problems(source)
    members: dict[str, list[JudgedPath]] = {name: [] for name in problems}
    for line, verdict in _judged(source, params, workers=workers, on_progress=on_progress):
        group = members[line.problem_id]
        group.append(JudgedPath(path=_path(line, index=len(group)), verdict=verdict))
    return [Group(problem=problem, members=members[name]) for name, problem in problems.items()]


def _problems(source: pathlib.Path) -> dict[str, Problem]:
    problems: dict[str, Problem] = {}
    for line in read_lines(source):
        name = line.problem_id
        problem = Problem(id=name, question=line.question, gold=line.gold, source=UNKNOWN)
        if problems.setdefault(name, problem) != problem:
            raise BadInputError(
                f"{source}: problem {name} has two questions or golds; give each its own problem_id"
            )
    return problems


def _judged(
    source: pathlib.Path,
    params: VerifyParams,
    *,
    workers: int,
    on_progress: OnProgress | None,
) -> Iterator[tuple[Line, Verdict]]:
    total = sum(1 for _ in read_lines(source))
    lines = read_lines(source)
    done = 0
    with open_verifier(params, workers=workers) as verifier:
        while chunk := list(itertools.islice(lines, CHUNK_LINES)):
            yield from zip(chunk, judge_lines(chunk, verifier), strict=True)
            done += len(chunk)
            if on_progress is not None:
                on_progress(done, total)


def judge_lines(lines: Sequence[Line], verifier: Verifier) -> list[Verdict]:
    """One verdict per line, in order; a line whose request failed has no score.

    Raises:
        SandboxUnavailableError: a line is code, and no sandbox tier is available.
    """
    return verifier.judge(
        [Item(gold=line.gold, text=line.text, failure=line.failure) for line in lines]
    )


def _path(line: Line, *, index: int) -> Path:
    return Path(
        problem_id=line.problem_id,
        index=index,
        text=line.text or "",
        finish_reason=line.finish_reason,
        prompt_tokens=line.prompt_tokens,
        completion_tokens=line.completion_tokens,
        logprob=None,
        provenance=Provenance(
            model=line.model or UNKNOWN,
            template=UNKNOWN,
            seed=0,
            temperature=0.0,
            top_p=1.0,
            max_new_tokens=0,
        ),
        error=line.failure,
    )
