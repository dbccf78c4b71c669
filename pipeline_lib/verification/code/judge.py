"""Judge of model-written Python: extract the code, test it in the sandbox, run a negative control.

A program that passes is run again with altered asserts; if it passes these too, it cheats. Nothing
of the text is parsed or run in this process.
"""

import re
from dataclasses import dataclass
from typing import Self

from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.params.paths import CodeLimits
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verification.answer_text import fenced_blocks, unix_lines
from pipeline_lib.verification.sandbox.client import RunReport, TestSuite
from pipeline_lib.verification.sandbox.tiers import (
    OpenTier,
    TierReport,
    permitted_tiers,
    probe_tier,
)

MAX_PROGRAM_LENGTH = 1 << 20


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


def extract_code(text: str, entry_point: str) -> ExtractedCode | None:
    """The last fenced block that defines ``entry_point``, else the last block, else the whole text.

    A byte-order mark and CRLF are accepted. None if the text is only white space.
    """
    unix = unix_lines(text)
    blocks = fenced_blocks(unix)
    if not blocks:
        return ExtractedCode(program=unix, rule="bare") if unix.strip() else None
    defines = re.compile(rf"^(async\s+)?(def|class)\s+{re.escape(entry_point)}\b", re.MULTILINE)
    index = max(
        (i for i, b in enumerate(blocks) if defines.search(b.content)), default=len(blocks) - 1
    )
    if not blocks[index].closed:
        rule = "open_block"
    else:
        rule = "only_block" if len(blocks) == 1 else "last_block"
    return ExtractedCode(program=blocks[index].content, rule=rule)


class CodeJudge:
    """Judges programs sequentially in a tier that passed its self-test."""

    def __init__(self, opened: OpenTier) -> None:
        self._opened = opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def tier(self) -> str:
        """The name of the tier in use."""
        return self._opened.name

    def close(self) -> None:
        """End the jail and everything in it."""
        self._opened.sandbox.close()

    def judge(self, gold: CodeGold, text: str) -> Verdict:
        """Judge one text: a fenced block, or a program as it is.

        ``lenient`` judges the code wherever it stood. ``strict`` also asks that it stood in exactly
        one closed fenced block, or that the whole text is the program.
        """
        code = extract_code(text, gold.entry_point)
        if code is None or len(code.program) > MAX_PROGRAM_LENGTH:
            what = "no code" if code is None else f"{len(code.program)} characters of code"
            return Verdict(status=Status.MALFORMED, strict=False, lenient=False, detail=what)
        report = self._run(gold, code.program)
        status = report.status
        right = status is Status.CORRECT
        unjudged = status is Status.VERIFIER_ERROR or not report.is_conclusive
        return Verdict(
            status=status,
            strict=None if unjudged else right and code.as_asked,
            lenient=None if unjudged else right,
            extracted=code.program,
            rule=code.rule,
            detail=report.detail or None,
            seconds=report.seconds,
        )

    def _run(self, gold: CodeGold, program: str) -> RunReport:
        suite = TestSuite(entry_point=gold.entry_point, tests=gold.tests)
        report = self._opened.sandbox.run(program, suite)
        if report.status is not Status.CORRECT:
            return report
        control = TestSuite(entry_point=gold.entry_point, tests=gold.tests, alter=True)
        second = self._opened.sandbox.run(program, control)
        seconds = report.seconds + second.seconds
        match second.status:
            case Status.CORRECT:
                detail = "passes the tests with an expected value altered, too"
                status = Status.REWARD_HACK
            case Status.VERIFIER_ERROR:
                detail, status = second.detail, Status.VERIFIER_ERROR
            case Status.TIMEOUT if not second.is_conclusive:
                detail, status = second.detail, Status.TIMEOUT
            case _:
                detail, status = "", Status.CORRECT
        return RunReport(
            status=status,
            detail=detail,
            output=report.output,
            seconds=seconds,
            is_conclusive=second.is_conclusive,
        )


def probe_tiers(limits: CodeLimits) -> list[TierReport]:
    """Self-test every tier that ``limits`` permit, best first."""
    return [probe_tier(name) for name in permitted_tiers(limits)]
