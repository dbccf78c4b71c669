"""Entry point inside a container: judges one program with the same two processes as other tiers.

Reads a header, the program and the tests from standard input and writes one line of JSON to
standard output. End of file on standard input means that the client is gone.
"""

import json
import os
from typing import Any

from pipeline_lib.verification.sandbox.jail import kernel
from pipeline_lib.verification.sandbox.jail.isolation import ContainerJail
from pipeline_lib.verification.sandbox.jail.zygote import Job, Zygote

_HEADER_BYTES = 256


def header(
    program: bytes, tests: bytes, stdin: bytes | None, *, timeout_s: float, memory_bytes: int
) -> bytes:
    """The header before program and tests on standard input, padded to a fixed size."""
    fields = {
        "program_bytes": len(program),
        "tests_bytes": len(tests),
        "stdin_bytes": None if stdin is None else len(stdin),
        "timeout_s": timeout_s,
        "memory_bytes": memory_bytes,
    }
    return json.dumps(fields).encode().ljust(_HEADER_BYTES)


def main() -> None:
    """Entry point of the container."""
    # The candidate runs under the same user, and a container has a /proc.
    kernel.set_dumpable(allowed=False)
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    report = _report(incoming)
    os.write(outgoing, json.dumps(report).encode())


def _report(incoming: int) -> dict[str, Any] | None:
    fields = json.loads(os.read(incoming, _HEADER_BYTES))
    program = _splice(incoming, fields["program_bytes"])
    tests = _splice(incoming, fields["tests_bytes"])
    stdin = None
    if fields["stdin_bytes"] is not None:
        stdin = _splice(incoming, fields["stdin_bytes"])
        os.lseek(stdin, 0, os.SEEK_SET)
    result, result_end = os.pipe()
    jail = ContainerJail()
    jail.enter()
    zygote = Zygote(jail, memory_bytes=fields["memory_bytes"], client=incoming)
    output = os.memfd_create("output")
    job = Job(program=program, tests=tests, result=result_end, output=os.dup(output), stdin=stdin)
    report = zygote.run(job, timeout_s=fields["timeout_s"])
    if report is not None:
        report["result"] = os.read(result, 1 << 16).decode()
        report["output"] = os.pread(output, 1 << 21 if stdin else 1 << 16, 0).decode(
            "utf-8", "replace"
        )
    return report


def _splice(source: int, count: int) -> int:
    """Move bytes into a memory file without reading them: the candidate is forked from here."""
    target = os.memfd_create("run")
    while count:
        moved = os.splice(source, target, count)
        if moved == 0:
            raise EOFError("standard input ended early")
        count -= moved
    return target
