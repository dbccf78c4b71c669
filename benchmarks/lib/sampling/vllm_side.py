"""vLLM as a side of `benchmarks.sampling`: one server in a separate environment, over HTTP."""

import asyncio
import os
import pathlib
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import openai
import psutil

from benchmarks.lib.sampling.models import Work
from benchmarks.lib.sampling.sides import BATCH_ROWS, WARM_UP_TOKENS, Drawn
from pipeline_lib.engines.identity import Endpoint
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.serve import ServeParams

VLLM = "vLLM"
POLL_S = 0.2


class NoVllmError(Exception):
    """vLLM is not installed or does not start."""


def draw_by_vllm(work: Work, *, threads: int) -> Drawn:
    """Send all prompts concurrently, each as one request for all its paths."""
    # By default it binds one thread to every core.
    settings = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(threads)}
    os.environ |= settings  # noqa: TID251 - for the server that is started
    serve = ServeParams(
        engine="vllm",
        options=("--dtype", work.dtype, "--max-num-seqs", str(BATCH_ROWS)),
    )
    with tempfile.TemporaryDirectory() as logs:
        try:
            with serving_engine(serve, model=work.model, log_folder=pathlib.Path(logs)) as engine:
                asyncio.run(_ask(engine.endpoint, work, max_new_tokens=WARM_UP_TOKENS))
                with _measure_children() as usage:
                    start = time.monotonic()
                    lengths = asyncio.run(
                        _ask(engine.endpoint, work, max_new_tokens=work.max_new_tokens)
                    )
                    stop = time.monotonic()
        except (BadInputError, ReasonloopError) as error:
            raise NoVllmError(str(error)) from error
    return Drawn(
        lengths=lengths,
        start=start,
        stop=stop,
        cpu_seconds=usage["cpu_seconds"],
        peak_mib=usage["peak_mib"],
    )


async def _ask(endpoint: Endpoint, work: Work, *, max_new_tokens: int) -> list[tuple[int, int]]:
    """Prompt tokens and the sum of sampled tokens for every prompt."""
    async with openai.AsyncOpenAI(
        base_url=endpoint.base_url, api_key="none", max_retries=0, timeout=600
    ) as client:

        async def ask(prompt: tuple[int, ...]) -> tuple[int, int]:
            answer = await client.completions.create(
                model=endpoint.model,
                prompt=list(prompt),
                n=work.paths,
                temperature=work.temperature,
                top_p=1.0,
                max_tokens=max_new_tokens,
                extra_body={"stop_token_ids": list(work.end_ids)},
            )
            assert answer.usage is not None
            return len(prompt), answer.usage.completion_tokens

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(prompt)) for prompt in work.prompts]
    return [task.result() for task in tasks]


@contextmanager
def _measure_children() -> Iterator[dict[str, float]]:
    """CPU seconds and peak memory of all child processes during the block."""
    usage = {"cpu_seconds": -_children_use()[0], "peak_mib": 0.0}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL_S):
            usage["peak_mib"] = max(usage["peak_mib"], _children_use()[1])

    thread = threading.Thread(target=watch)
    thread.start()
    yield usage
    done.set()
    thread.join()
    usage["cpu_seconds"] += _children_use()[0]


def _children_use() -> tuple[float, float]:
    """CPU seconds and resident MiB of all child processes now."""
    seconds = resident = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times, memory = child.cpu_times(), child.memory_info()
        except psutil.NoSuchProcess:
            continue
        seconds += times.user + times.system
        resident += memory.rss / 2**20
    return seconds, resident
