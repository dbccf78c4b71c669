"""Cost of a verdict on a program: the sandbox tiers against common alternatives.

Every method judges the same right programs with the same tests, sequentially. Only right programs
are used, because two of the methods have no jail.

    python -m benchmarks.sandbox --data HumanEval.jsonl --output sandbox.json
"""

import contextlib
import io
import json
import multiprocessing
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.errors import SandboxUnavailableError
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.params.paths import CodeLimits
from pipeline_lib.problems.data_set import RawRow
from pipeline_lib.problems.row_parsers import humaneval_problem
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.code import CodeJudge
from pipeline_lib.verify.sandbox.client import JailRefusedError, TestSuite
from pipeline_lib.verify.sandbox.docker import IMAGE, DockerSandbox
from pipeline_lib.verify.sandbox.tiers import open_tier

TIMEOUT_S = 10.0
MEMORY_BYTES = 256 << 20
DOCKER_PROGRAMS = 20
SLOWEST_SHARE = 0.02
"""This share of the programs, the longest-running, is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A right program with its tests."""

    source: str
    entry_point: str
    tests: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Measurements of one method."""

    way: str
    programs: int
    per_second: float
    per_cpu_second: float | None
    """None for docker: the CPU time of its daemon is not visible."""


Judge = Callable[[Program], bool]


def generate_programs() -> list[Program]:
    """HumanEval-like programs, for machines without the data set."""
    return [
        Program(
            source=f"from typing import List\n\n\ndef scaled(values: List[int]) -> List[int]:\n"
            f'    """Every value times {n}."""\n    return [{n} * value for value in values]\n',
            entry_point="scaled",
            tests="def check(candidate):\n    assert candidate([]) == []\n"
            f"    assert candidate([1, 2, 3]) == [{n}, {2 * n}, {3 * n}]\n"
            f"    assert candidate([-1]) == [{-n}]\n",
        )
        for n in range(2, 102)
    ]


def humaneval(path: pathlib.Path) -> list[Program]:
    """Canonical solutions of HumanEval without the slowest."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [
        RawRow(fields=json.loads(line), where=f"{path.name}:{number}", index=number)
        for number, line in enumerate(lines)
    ]
    problems = [humaneval_problem(row, id_prefix="", source=path.stem) for row in rows]
    programs = [
        Program(source=p.solution, entry_point=p.gold.entry_point, tests=p.gold.tests)
        for p in problems
        if isinstance(p.gold, CodeGold) and p.solution is not None
    ]
    by_cost = sorted(programs, key=_seconds_in_process)
    return by_cost[: len(by_cost) - int(SLOWEST_SHARE * len(by_cost))]


def _seconds_in_process(program: Program) -> float:
    start = time.process_time()
    exec(_script(program), {})
    return time.process_time() - start


def _script(program: Program) -> str:
    return f"{program.source}\n{program.tests}\ncheck({program.entry_point})\n"


def by_tier(name: str, stack: ExitStack) -> Judge:
    """One run in a sandbox tier, without the negative control."""
    opened = open_tier(CodeLimits(timeout_s=TIMEOUT_S, tier=name))  # type: ignore[arg-type]
    stack.callback(opened.close)

    def judge(program: Program) -> bool:
        suite = TestSuite(entry_point=program.entry_point, tests=program.tests)
        return opened.run(program.source, suite).status is Status.CORRECT

    return judge


def with_control(name: str, stack: ExitStack) -> Judge:
    """The whole verdict: extraction, run, and the negative control."""
    limits = CodeLimits(timeout_s=TIMEOUT_S, tier=name)  # type: ignore[arg-type]
    code_judge = stack.enter_context(contextlib.closing(CodeJudge(open_tier(limits))))

    def judge(program: Program) -> bool:
        gold = CodeGold(entry_point=program.entry_point, tests=program.tests)
        return code_judge.judge(gold, program.source).status is Status.CORRECT

    return judge


def cold_interpreter(program: Program) -> bool:
    """A fresh ``python -I`` judged by its exit code; no jail."""
    command = [sys.executable, "-I", "-c", _script(program)]
    return (
        subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False).returncode == 0
    )


def guarded_fork(program: Program) -> bool:
    """The published HumanEval harness: a forked, guarded process; the result by a manager."""
    fork = multiprocessing.get_context("fork")
    with fork.Manager() as manager:
        results = manager.list()
        process = fork.Process(target=_guarded, args=(_script(program), results))
        process.start()
        process.join(TIMEOUT_S + 1)
        process.kill()
        return list(results) == ["passed"]


def _guarded(script: str, results: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    folder = tempfile.mkdtemp()
    remove = shutil.rmtree
    os.chdir(folder)
    guarded = ("kill", "system", "remove", "fork", "setuid", "rename", "unlink", "chmod", "chown")
    kept = {name: getattr(os, name) for name in guarded}
    for name in guarded:
        setattr(os, name, None)
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT_S)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(script, {})
        results.append("passed")
    except BaseException as error:  # noqa: BLE001 - as published
        results.append(f"failed: {error}")
    for name, function in kept.items():
        setattr(os, name, function)
    remove(folder, ignore_errors=True)


def docker_run(image: str) -> Judge:
    """``docker run`` of a fresh interpreter, judged by its exit code."""

    def judge(program: Program) -> bool:
        flags = [
            "--network=none",
            "--memory=256m",
            "--pids-limit=64",
            "--read-only",
            "--cap-drop=ALL",
        ]
        flags += ["--security-opt=no-new-privileges", "--user=65534:65534", "--log-driver=none"]
        command = ["docker", "run", "--rm", "--pull=never", *flags, image]
        command += ["python3", "-I", "-c", _script(program)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    return judge


def docker_tier(image: str) -> Judge:
    """One run in the docker tier."""
    sandbox = DockerSandbox(timeout_s=TIMEOUT_S, memory_bytes=MEMORY_BYTES, image=image)

    def judge(program: Program) -> bool:
        suite = TestSuite(entry_point=program.entry_point, tests=program.tests)
        return sandbox.run(program.source, suite).status is Status.CORRECT

    return judge


def measure(
    way: str, open_judge: Callable[[ExitStack], Judge], programs: Sequence[Program]
) -> Result:
    """Judge all programs; CPU seconds include waited-for children."""
    _, _, start_cpu = _judge_all(open_judge, programs[:1])
    wrong, seconds, cpu = _judge_all(open_judge, programs)
    cpu -= start_cpu
    if wrong:
        raise SystemExit(f"{way}: right programs were rejected: {wrong[:5]}")
    return Result(
        way=way,
        programs=len(programs),
        per_second=len(programs) / seconds,
        per_cpu_second=None if "docker" in way else (len(programs) - 1) / cpu,
    )


def _judge_all(
    open_judge: Callable[[ExitStack], Judge], programs: Sequence[Program]
) -> tuple[list[str], float, float]:
    """Rejected programs, wall-clock seconds without the start, CPU seconds with it."""
    before = _cpu_seconds()
    with ExitStack() as stack:
        judge = open_judge(stack)
        start = time.perf_counter()
        wrong = [program.entry_point for program in programs if not judge(program)]
        seconds = time.perf_counter() - start
    # The jail is closed here: only then is the CPU time of its processes counted.
    return wrong, seconds, _cpu_seconds() - before


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def all_ways(programs: Sequence[Program], image: str) -> list[Result]:
    """Measure every method that works on this machine; print which do not."""
    ways: list[tuple[str, Callable[[ExitStack], Judge], Sequence[Program]]] = [
        ("namespace", lambda stack: by_tier("namespace", stack), programs),
        ("landlock", lambda stack: by_tier("landlock", stack), programs),
        ("namespace + control", lambda stack: with_control("namespace", stack), programs),
        ("landlock + control", lambda stack: with_control("landlock", stack), programs),
        ("cold python -I", lambda _: cold_interpreter, programs),
        ("guarded fork", lambda _: guarded_fork, programs),
        ("docker tier", lambda _: docker_tier(image), programs[:DOCKER_PROGRAMS]),
        ("docker run", lambda _: docker_run(image), programs[:DOCKER_PROGRAMS]),
    ]
    results = []
    for way, open_judge, chosen in ways:
        try:
            results.append(measure(way, open_judge, chosen))
        except (JailRefusedError, SandboxUnavailableError) as error:
            print(f"{way}: left out ({error})")
            if "docker" in way:
                break
    return results


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--data", type=pathlib.Path, help="HumanEval.jsonl; default: generated programs"
    )
    parser.add_argument("--image", default=IMAGE, help="local docker image with python3")
    add_output(parser)
    arguments = parser.parse_args()
    programs = humaneval(arguments.data) if arguments.data else generate_programs()
    results = all_ways(programs, arguments.image)
    print(f"{'way':22}{'programs':>10}{'per second':>12}{'per CPU s':>12}")
    for result in results:
        cpu = "-" if result.per_cpu_second is None else f"{result.per_cpu_second:.0f}"
        print(f"{result.way:22}{result.programs:>10}{result.per_second:>12.1f}{cpu:>12}")
    write_results(arguments.output, [asdict(result) for result in results])


if __name__ == "__main__":
    main()
