"""Files of answers for `reasonloop verify`, `build` and `evaluate`: verdicts by line, or groups of paths.

A line is a JSON object with ``text`` (a model's answer; null if there is none), ``kind`` ("math" by
default) and the fields of that kind's gold (``read_line`` in its module of `kinds`): ``gold`` or,
as in GSM8K, a ``reference`` that ends in the answer; ``numbers`` and ``target``; ``entry_point``
and ``tests``; or, for ARC, a ``gold`` that is a grid (rows of colours). ``id``, ``problem_id``,
``question``, ``columns`` and ``turns`` of the problem, ``model``, ``finish_reason``, ``prompt_tokens``,
``completion_tokens`` and a publisher's ``label`` are optional; other keys are ignored, so published files can
be verified as they are.

The whole file is validated before the first answer is judged, then streamed in chunks, so a file
may be larger than memory.
"""

import contextlib
import itertools
import json
import pathlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    PlainValidator,
    SkipValidation,
    StrictBool,
    StrictInt,
    StrictStr,
)

from pipeline_lib.errors import BadInputError, Faults, errors_at
from pipeline_lib.kinds.kind import DistinctIds, Gold, Name
from pipeline_lib.kinds.math import MATH
from pipeline_lib.kinds.table import find_kind
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import FinishReason, Group, JudgedPath, Path, Problem, Provenance, Row
from pipeline_lib.store.files import check_output, numbered_json_lines, write_json_lines
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import Item, Verifier, open_verifier

_BEGINNING_BYTES = 1 << 20
MAX_SAMPLES = 20
MAX_TAIL_CHARS = 160
CHUNK_LINES = 2_048
"""At the end of each chunk the last stragglers are waited for."""
UNKNOWN = "recorded"
"""Value of provenance fields that a file does not give."""

OnProgress = Callable[[int, int], None]
"""Called with the number of judged lines and of all lines."""


def _written(value: Any) -> Any:
    # pydantic's str refuses lone surrogates, which model output may contain.
    if not isinstance(value, str):
        raise ValueError(f"expected a string, got {type(value).__name__}")  # noqa: TRY004 - pydantic
    return value


_Id = Annotated[Name, BeforeValidator(lambda value: "" if value is None else value)]
_Written = Annotated[str, PlainValidator(_written)]
_Count = Annotated[StrictInt, Field(ge=0)]


class Line(BaseModel, extra="ignore", frozen=True, arbitrary_types_allowed=True):
    """One answer to judge."""

    id: _Id = ""
    problem_id: _Id = ""
    question: _Written = ""
    columns: dict[str, Any] = {}
    turns: tuple[tuple[Literal["system", "user", "assistant"], StrictStr], ...] = ()
    model: StrictStr | None = None
    gold: SkipValidation[Gold]
    """Read by its kind, after the other fields."""
    text: _Written | None
    finish_reason: FinishReason = FinishReason.STOP
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    label: StrictBool | None = Field(
        default=None, validation_alias=AliasChoices("label", "label_by_source")
    )
    """The publisher's judgement, if the file has one."""

    def problem(self) -> Problem:
        """What it answers, under the id of the problem, which `read_lines` gives to a line without one."""
        return Problem(
            id=self.problem_id,
            question=self.question,
            gold=self.gold,
            source=UNKNOWN,
            columns=self.columns,
            turns=self.turns,
        )

    @property
    def failure(self) -> str | None:
        """Why the model was not sampled, if its request failed."""
        return "not sampled" if self.finish_reason is FinishReason.ERROR else None


def read_lines(path: pathlib.Path) -> Iterator[Line]:
    """Yield the lines of a file, each validated.

    A line without ``id`` gets its problem's id and its number among the lines of that problem.

    Args:
        path: JSON lines, plain or ``.gz``.

    Raises:
        BadInputError: no such file, lines that cannot be used, or an id twice; with file, line and key of
            up to 20 lines.
    """
    _refuse_logs(path)
    faults = Faults()
    seen: Counter[str] = Counter()
    ids = DistinctIds()
    with faults.kept():
        for number, row in numbered_json_lines(path):
            with faults.kept():
                line = parse_line(row, where=f"{path}:{number}")
                problem_id = line.problem_id or line.id or f"line-{number}"
                name = line.id or f"{problem_id}#{seen[problem_id]}"
                seen[problem_id] += 1
                ids.add(name, path=path, number=number)
                yield line.model_copy(update={"id": name, "problem_id": problem_id})
    faults.raise_any()


def _refuse_logs(path: pathlib.Path) -> None:
    """Name the format of a log of another program, instead of the fields that it lacks."""
    if not path.is_file():
        return
    with path.open("rb") as stream:
        first, rest = stream.readline(_BEGINNING_BYTES), stream.read(_BEGINNING_BYTES)
    keys: set[str] = set()
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        keys = set(json.loads(first))
    is_zip = first.startswith(b"PK\3\4") and b"_journal/" in first
    is_inspect = is_zip or b'"eval_id"' in first + rest
    if "text" not in keys and (is_inspect or {"doc", "resps"} <= keys):
        what = "a log of Inspect" if is_inspect else "a file of samples of lm-evaluation-harness"
        raise BadInputError(f"{path}: is {what}; make lines of it by `reasonloop import-rollouts`")


def parse_line(row: Mapping[str, Any], *, where: str) -> Line:
    """The line of one JSON object; an id that it lacks is empty.

    Raises:
        BadInputError: it cannot be used; with ``where`` and the key.
    """
    kind = find_kind(row.get("kind", MATH.name), where=where)
    with errors_at(where, unnamed="gold"):
        line = Line.model_validate({"gold": None, **row})
        return line.model_copy(update={"gold": kind.read_line(row)})


def problem_line(problem: Problem) -> Row:
    """The fields of a line that say what is asked; further columns and messages only of a problem that has them."""
    further = {"columns": dict(problem.columns), "turns": problem.turns}
    return {
        "kind": problem.kind.name,
        "question": problem.question,
        **problem.kind.write_line(problem.gold),
        **{name: value for name, value in further.items() if value},
    }


def path_line(path: Path, problem: Problem) -> Row:
    """A path with its problem, as a line that `reasonloop verify`, `build` and `evaluate` read."""
    return {
        "id": path.id,
        "problem_id": problem.id,
        **problem_line(problem),
        **asdict(path.provenance),
        "finish_reason": path.finish_reason.value,
        "prompt_tokens": path.prompt_tokens,
        "completion_tokens": path.completion_tokens,
        "logprob": path.logprob,
        "text": path.text if path.error is None else None,
    }


@dataclass(slots=True)
class LineSummary:
    """Metrics of the lines of one file that were added so far."""

    by_status: Counter[str] = field(default_factory=Counter)
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
    judge_tokens: int = 0
    """Of a model that was asked: of its prompts and drawn."""

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
        self.by_status[verdict.status.value] += 1
        self.judge_tokens += sum(verdict.judge_tokens)
        if verdict.lenient is None:
            self.unscored_ids[verdict.reason or ""].append(line.id)
            return
        self.num_strict += bool(verdict.strict)
        self.num_lenient += verdict.lenient
        if verdict.lenient and not verdict.strict:
            rule = verdict.rule or "none"
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
        problem = line.problem()
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
