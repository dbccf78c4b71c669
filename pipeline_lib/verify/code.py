"""Judge of model-written Python: extract the code, and test it in the sandbox.

Nothing of the text is parsed or run in this process.
"""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from pipeline_lib.killable.pool import Pool
from pipeline_lib.kinds.code import CodeGold, entry_name
from pipeline_lib.kinds.program import ProgramGold, agrees
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verdicts import Status, Verdict, timed_verdict
from pipeline_lib.verify.answer_text import FencedBlock, fenced_blocks, strip_reasoning, unix_lines
from pipeline_lib.verify.sandbox.client import EXITED, RunReport, TestSuite
from pipeline_lib.verify.sandbox.tiers import Sandbox, open_named_tier, open_tier

MAX_PROGRAM_LENGTH = 1 << 20
_DEFINITION = re.compile(r"^(?:(?:async\s+)?def|class)\s+(\w+)", re.MULTILINE)
_READS_INPUT = re.compile(r"\binput\(|\bstdin\b|\bopen\(0")
_WORD = re.compile(r"\w+")
_QUOTES = ('"""', "'''")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedCode:
    """A program found in a model's output."""

    program: str
    rule: str
    """``only_block``, ``last_block``, ``open_block`` (its fence never closes) or ``bare``."""

    @property
    def as_asked(self) -> bool:
        """True if it is the only fenced block, or the whole text."""
        return self.rule in {"only_block", "bare"}


def extract_code(text: str, entry_point: str, *, prompt: str = "") -> ExtractedCode | None:
    """The last fenced block that defines ``entry_point``, else the last block, else the whole text.

    Reasoning is left out. Other blocks that define names which this one lacks are put before it, and
    ``prompt`` before a program that does not define the function, which then completes it. A
    byte-order mark and CRLF are accepted. None if the text is only white space.
    """
    name = entry_name(entry_point)
    found = _extract(text, lambda block: name in _defined(block), name)
    if found is None or not prompt or name in _defined(found.program):
        return found
    return replace(found, program=f"{prompt.rstrip()}\n{found.program}")


def extract_program(text: str) -> ExtractedCode | None:
    """As :func:`extract_code`, the last block that reads its input."""
    return _extract(text, lambda block: _READS_INPUT.search(block) is not None, "")


def _extract(text: str, is_wanted: Callable[[str], bool], name: str) -> ExtractedCode | None:
    unix = unix_lines(strip_reasoning(text))
    blocks = _whole_strings(unix)
    if not blocks:
        return ExtractedCode(program=unix, rule="bare") if unix.strip() else None
    wanted = (number for number, block in enumerate(blocks) if is_wanted(block.content))
    index = max(wanted, default=len(blocks) - 1)
    if not blocks[index].closed:
        rule = "open_block"
    else:
        rule = "only_block" if len(blocks) == 1 else "last_block"
    others = [block.content for i, block in enumerate(blocks) if i != index]
    program = _with_helpers(blocks[index].content, others, name)
    return ExtractedCode(program=program, rule=rule)


def _whole_strings(text: str) -> list[FencedBlock]:
    """The blocks of a text, joined where a fence stands inside a string of three quotes."""
    joined: list[FencedBlock] = []
    for block in fenced_blocks(text):
        last = joined[-1] if joined else None
        if last is not None and any(last.content.count(quotes) % 2 for quotes in _QUOTES):
            content = text[last.start : block.start + len(block.content)]
            joined[-1] = FencedBlock(content=content, start=last.start, closed=block.closed)
        else:
            joined.append(block)
    return joined


def _with_helpers(program: str, others: list[str], name: str) -> str:
    """The program after other blocks that define names which it uses and lacks."""
    helpers: list[str] = []
    known = _defined(program)
    for other in reversed(others):
        defined = _defined(other)
        missing = defined - known
        if name not in defined and missing & set(_WORD.findall(program)):
            helpers.insert(0, other)
            known |= defined
    return "\n".join([*helpers, program])


def _defined(program: str) -> set[str]:
    return set(_DEFINITION.findall(program))


class CodeJudge:
    """Judges programs sequentially in a tier that passed its self-test; a `killable.pool.Worker`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def close(self) -> None:
        """End the jail and everything in it."""
        self._sandbox.close()

    def answer(self, pair: tuple[CodeGold, str]) -> Verdict:
        """The verdict on one text; an exception affects only its own item."""
        return timed_verdict(functools.partial(self.judge, *pair))

    def judge(self, gold: CodeGold, text: str) -> Verdict:
        """Judge one text: a fenced block, or a program as it is.

        ``lenient`` judges the code wherever it stood. ``strict`` also asks that it stood in exactly
        one closed fenced block, or that the whole text is the program.
        """
        code = extract_code(text, gold.entry_point, prompt=gold.prompt)
        suite = TestSuite(entry_point=gold.entry_point, tests=gold.tests)
        return _verdict(code, lambda program: self._sandbox.run(program, suite))


class ProgramJudge(CodeJudge):
    """Judges programs that read standard input, each test in a process of its own."""

    def judge(self, gold: ProgramGold, text: str) -> Verdict:  # type: ignore[override, explicit-override]
        """Judge one text as `CodeJudge` does; the first test that fails decides."""
        return _verdict(extract_program(text), lambda program: self._run(gold, program))

    def _run(self, gold: ProgramGold, program: str) -> RunReport:
        reports: list[RunReport] = []
        for number, (given, wanted) in enumerate(gold.tests, start=1):
            report = self._sandbox.run(program, TestSuite(stdin=given))
            if report.status is Status.CORRECT or report.detail == EXITED:
                right = agrees(gold, wanted, report.output)
                status = Status.CORRECT if right else Status.WRONG
                detail = "" if right else f"another output in test {number}"
                report = replace(report, status=status, detail=detail)
            reports.append(report)
            if report.status is not Status.CORRECT:
                break
        return replace(reports[-1], seconds=sum(report.seconds for report in reports))


def _verdict(code: ExtractedCode | None, run: Callable[[str], RunReport]) -> Verdict:
    if code is None or len(code.program) > MAX_PROGRAM_LENGTH:
        what = "no code" if code is None else f"{len(code.program)} characters of code"
        return Verdict(status=Status.MALFORMED, strict=False, lenient=False, detail=what)
    report = run(code.program)
    right = report.status is Status.CORRECT
    unjudged = report.status is Status.VERIFIER_ERROR or not report.is_conclusive
    return Verdict(
        status=report.status,
        strict=None if unjudged else right and code.as_asked,
        lenient=None if unjudged else right,
        extracted=code.program,
        rule=code.rule,
        detail=report.detail or None,
        seconds=report.seconds,
    )


def open_judge(
    params: VerifyParams, *, workers: int, kind: type[CodeJudge] = CodeJudge
) -> Pool[tuple[CodeGold, str], Verdict]:
    """Open the best tier of the sandbox, or the one named by ``params``, after one self-test.

    Raises:
        SandboxUnavailableError: no tier passes its self-test; nothing is run.
    """
    sandbox = open_tier(params.code)
    return Pool(
        lambda: kind(open_named_tier(sandbox.tier, params.code)),
        num_workers=workers,
        first=kind(sandbox),
    )


open_program_judge = functools.partial(open_judge, kind=ProgramJudge)
"""The same for programs that read standard input."""
