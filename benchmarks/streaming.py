"""Wall time of sampling and verifying a round: one after the other, and each shard at once.

The engine is a server that waits for a fixed time and answers with scripted programs; flows, client,
storage, verifier and sandbox are the real ones. The programs sleep, so that neither pass is short of
CPU time. Both sides draw the same paths, and their verdicts are compared by digest. Streamed, the time
can be no shorter than that of the longer pass plus one shard of the other.

    python -m benchmarks.streaming --waits 1.5 3 6 --repeats 3 --output streaming.json
"""

import asyncio
import multiprocessing
import pathlib
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.lib.command_line import add_output, make_parser, write_results
from flows.server import server
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.params.whole import Params
from pipeline_lib.params_file import load_params
from pipeline_lib.records import Problem
from pipeline_lib.store import manifests
from pipeline_lib.store.shards import write_table
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import read_events

MODEL = "scripted"
NUM_PATHS = 4
SHARD_SIZE = 5
PROGRAM_S = 0.15
"""Time that a program sleeps; the 20 of a shard, 3 s."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Seconds of one case; medians over the repeats."""

    wait_s: float
    """Time of one shard in the engine."""
    sample: float
    verify: float
    streamed: float
    sample_shard: float
    """Mean time of one shard in a worker."""
    verify_shard: float

    @property
    def bound(self) -> float:
        """The longer pass and one shard of the other."""
        if self.sample > self.verify:
            return self.sample + self.verify_shard
        return self.verify + self.sample_shard


def program(number: int, extra: int) -> str:
    """A program that adds ``number`` and ``extra``."""
    body = f"time.sleep({PROGRAM_S})\n    return x + {number + extra}"
    return f"```python\nimport time\n\ndef f(x):\n    {body}\n```"


def write_problems(workspace: Workspace, count: int) -> None:
    """Problems whose programs add their number."""
    rows = [
        Problem(
            id=f"p{number}",
            question=f"{number}",
            gold=CodeGold(entry_point="f", tests=f"assert f(1) == {number + 1}"),
            source="benchmark",
        ).row()
        for number in range(count)
    ]
    write_table(workspace.problems("train"), rows, kind="problems", key="benchmark")


def serve(wait_s: float, ready: Connection) -> None:
    """Serve an OpenAI-compatible chat route that answers each request after ``wait_s``."""
    import uvicorn  # noqa: PLC0415 - in the server's process alone
    from starlette.applications import Starlette  # noqa: PLC0415 - in the server's process alone
    from starlette.requests import Request  # noqa: PLC0415 - in the server's process alone
    from starlette.responses import JSONResponse  # noqa: PLC0415 - in the server's process alone
    from starlette.routing import Route  # noqa: PLC0415 - in the server's process alone

    async def models(_request: Request) -> JSONResponse:
        return JSONResponse({"data": [{"id": MODEL, "owned_by": "vllm"}]})

    async def complete(request: Request) -> JSONResponse:
        body = await request.json()
        await asyncio.sleep(wait_s)
        return JSONResponse(answer(body))

    listener = socket.create_server(("127.0.0.1", 0))
    ready.send(listener.getsockname()[1])
    app = Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/v1/chat/completions", complete, methods=["POST"]),
        ]
    )
    config = uvicorn.Config(app, log_level="critical", lifespan="off")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """The scripted response: the first text is right, the others are wrong by their index."""
    words = body["messages"][0]["content"].split()
    number = int(words[0]) if words[0].isdigit() else 0  # another prompt probes the server
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": program(number, index)},
            "finish_reason": "stop",
            "token_ids": [index],
        }
        for index in range(body.get("n", 1))
    ]
    usage = {"prompt_tokens": 1, "completion_tokens": len(choices)}
    return {"id": "c", "model": MODEL, "choices": choices, "usage": usage}


@contextmanager
def scripted_engine(wait_s: float) -> Iterator[str]:
    """The address of the server, which runs in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ready, sending = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(wait_s, sending), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ready.recv()}/v1"
    finally:
        process.terminate()
        process.join()


def measured(params: Params, *, num_shards: int, wait_s: float) -> Measured:
    """Both sides once, each in a workspace of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return measure(params, pathlib.Path(folder), num_shards=num_shards, wait_s=wait_s)


def measure(params: Params, root: pathlib.Path, *, num_shards: int, wait_s: float) -> Measured:
    """Both sides once, in workspaces below ``root``."""
    from flows.parallel.draws import (  # noqa: PLC0415 - as above
        sample_and_verify_round,
        sample_round,
        verify_round,
    )
    from flows.ray.runners import cluster  # noqa: PLC0415 - after the server's address is set
    from pipeline_lib.verify.dispatch import close_pooled_verifiers  # noqa: PLC0415 - as above

    sides = {
        "passes": {"sample": sample_round, "verify": verify_round},
        "streamed": {"streamed": sample_and_verify_round},
    }
    seconds, verdicts = {}, set()
    for side, flows in sides.items():
        workspace = Workspace(root / side)
        write_problems(workspace, num_shards * SHARD_SIZE)
        run = Run(root=workspace.root, params=params)
        close_pooled_verifiers()  # each side opens its own
        with cluster(params.execution):
            for name, flow in flows.items():
                start = time.perf_counter()
                flow(run)
                seconds[name] = time.perf_counter() - start
        verdicts.add(manifests.read_manifest(workspace.round_folders(1).verdicts).digest)
    assert len(verdicts) == 1, "the verdicts of the two sides differ"
    return Measured(
        wait_s=wait_s,
        sample_shard=mean_shard(root / "passes", "sample"),
        verify_shard=mean_shard(root / "passes", "verify"),
        **seconds,
    )


def mean_shard(workspace: pathlib.Path, stage: str) -> float:
    """Mean seconds of one shard of ``stage`` in its worker."""
    return statistics.mean(
        float(event["worker_seconds"])
        for event in read_events(workspace)
        if event["event"] == "work" and event["stage"] == stage
    )


def median_of(cases: list[Measured]) -> Measured:
    """Each figure's median."""
    rows = [asdict(case) for case in cases]
    return Measured(**{name: statistics.median(row[name] for row in rows) for name in rows[0]})


def report(cases: list[Measured]) -> None:
    """Print a row per case."""
    print(
        f"{'wait s':>8}{'sample':>9}{'verify':>9}{'sum':>9}{'bound':>9}{'streamed':>10}{'over bound':>12}"
    )
    for case in cases:
        print(
            f"{case.wait_s:>8.2f}{case.sample:>9.2f}{case.verify:>9.2f}"
            f"{case.sample + case.verify:>9.2f}{case.bound:>9.2f}{case.streamed:>10.2f}"
            f"{case.streamed / case.bound - 1:>12.1%}"
        )


def main() -> None:
    """Measure each wait, print a table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--waits", type=float, nargs="+", default=[1.5, 3.0, 6.0])
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runner", choices=["thread", "ray"], default="thread")
    parser.add_argument("--repeats", type=int, default=1)
    add_output(parser)
    arguments = parser.parse_args()
    server.ensure()
    cases: list[Measured] = []
    for wait_s in arguments.waits:
        with scripted_engine(wait_s) as url:
            params = load_params(
                overrides=[
                    *("serve.engine=url", f"serve.url={url}", f"sample.num_paths={NUM_PATHS}"),
                    *(f"sample.shard_size={SHARD_SIZE}", f"execution.runner={arguments.runner}"),
                    f"execution.workers={arguments.workers}",
                ]
            )
            if not cases:  # the first calls import libraries
                measured(params, num_shards=1, wait_s=wait_s)
            repeats = [
                measured(params, num_shards=arguments.shards, wait_s=wait_s)
                for _ in range(arguments.repeats)
            ]
            cases.append(median_of(repeats))
    report(cases)
    write_results(arguments.output, [{**asdict(case), "bound": case.bound} for case in cases])


if __name__ == "__main__":
    main()
