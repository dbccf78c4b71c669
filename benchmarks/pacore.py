"""Rounds of PaCoRe against the same calls without their order, in sequence, by Ray workers, and through the gateway.

Wall times of one run, in turns, fastest repetition. `high` draws 32, 4 and 1 paths per problem, each round
after the one before. The bound is the time of the same requests as one batch: what the engine takes if no call
waits for another. In sequence, each of the 37 calls of one problem is a batch of its own.

Workers are commands `pacore worker` of a master on this machine, each with an engine of one thread, as in process.

Problems are in words, or Countdown for a model that reads compact prompts.

The gateway stands before `reasonloop serve` on this machine. Its overhead is the difference of medians of a
request with one token; 20 clients ask `:low` at once, and one after another.

    python -m benchmarks.pacore --model models/pacore-base --problems 64 --output pacore.json
    python -m benchmarks.pacore --model models/smollm2 --problems 4 --max-new-tokens 16 --repeats 1
"""

import asyncio
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from openai import AsyncOpenAI, OpenAI

from benchmarks.lib.command_line import add_output, make_parser, write_results
from flows.cli.pacore.cluster import WorkerOptions, worker_pool
from flows.server.server import LOOPBACK, unused_port
from pipeline_lib.engines.chat_model import (
    ChatFormat,
    ChatModel,
    Completion,
    Decoding,
    Request,
)
from pipeline_lib.engines.client.session import gather_all
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.params.pacore import PRESETS, PacoreParams
from pipeline_lib.params.paths import PrepareParams
from pipeline_lib.params.whole import Params
from pipeline_lib.problems import countdown, word_problems
from pipeline_lib.sampling.prompts import conversation
from pipeline_lib.systems.pacore.drive import solve_all, solve_in_lockstep
from pipeline_lib.systems.pacore.evaluation import read_problems
from pipeline_lib.systems.pacore.rounds import Setting
from pipeline_lib.systems.pacore.settings import open_setting
from pipeline_lib.systems.pacore.solution import Question

SEED = 7
CLIENTS = 20
_CALLS = 40
_START_S = 300.0


@dataclass(kw_only=True)
class RecordingEngine:
    """The engine, with every request that it was asked for. Implements ChatModel."""

    inner: EmbeddedEngine
    requests: list[Request] = field(default_factory=list)
    tokens: int = 0

    @property
    def identity(self) -> str:
        """Of the engine."""
        return self.inner.identity

    @property
    def engine(self) -> str:
        """Of the engine."""
        return self.inner.engine

    @property
    def adapter(self) -> str | None:
        """Of the engine."""
        return self.inner.adapter

    @property
    def arithmetic(self) -> str:
        """Of the engine."""
        return self.inner.arithmetic

    @property
    def chat_format(self) -> ChatFormat | None:
        """Of the engine."""
        return self.inner.chat_format

    def room(self, prompt: str) -> int | None:
        """Of the engine."""
        return self.inner.room(prompt)

    def complete(self, requests: Sequence[Request], decoding: Decoding) -> list[list[Completion]]:
        """The engine's completions."""
        self.requests += requests
        drawn = self.inner.complete(requests, decoding)
        self.tokens += sum(one.completion_tokens for many in drawn for one in many)
        return drawn


def timed(run: Callable[[], object]) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure_rounds(
    engine: EmbeddedEngine, questions: Sequence[Question], setting: Setting, *, repeats: int
) -> dict[str, float]:
    """Seconds of `high` on all questions, of the same requests as one batch, and of one question's calls."""
    recorder = RecordingEngine(inner=engine)
    solve_in_lockstep(recorder, questions, setting)
    alone = RecordingEngine(inner=engine)
    solve_in_lockstep(alone, questions[:1], setting)
    calls = [Request(prompt=r.prompt, seeds=[s]) for r in alone.requests for s in r.seeds]
    sides: dict[str, Callable[[], object]] = {
        "high": lambda: solve_in_lockstep(engine, questions, setting),
        "bound": lambda: engine.complete(recorder.requests, setting.decoding),
        "one question": lambda: solve_in_lockstep(engine, questions[:1], setting),
        "its calls in sequence": lambda: [
            engine.complete([call], setting.decoding) for call in calls
        ],
    }
    best: dict[str, float] = {}
    for _ in range(repeats):
        for name, run in sides.items():
            best[name] = min(timed(run), best.get(name, float("inf")))
    return {**best, "tokens": recorder.tokens, "calls": len(questions) * len(calls)}


def measure_workers(
    model: str, engine: EmbeddedEngine, questions: Sequence[Question], params: Params
) -> dict[str, float]:
    """Seconds of `high` on all questions in process, by one and by two workers on Ray, in this order."""

    def solving(drawer: ChatModel) -> float:
        with open_setting(drawer, params.pacore, params.verify, seed=SEED) as setting:
            return timed(
                lambda: solve_all(
                    drawer,
                    questions,
                    setting,
                    together=params.pacore.problems_together,
                    on_solved=lambda _solution: None,
                )
            )

    found = {"in process": solving(engine)}
    with ExitStack() as stack:
        logs = ("--workspace", stack.enter_context(tempfile.TemporaryDirectory()))
        port = unused_port()
        address = f"{LOOPBACK}:{port}"
        master = WorkerOptions(master=address)
        stack.enter_context(started("pacore", "master", "--port", str(port), *logs))
        for count in (1, 2):
            place = ("--master", address, "--node-id", str(count))
            stack.enter_context(started("pacore", "worker", model, *place, *logs))
            with worker_pool(model, params, master) as pool:
                found[f"{count} on Ray"] = solving(pool)
    return found


@contextmanager
def started(*arguments: str) -> Iterator[list[str]]:
    """The first lines of a serving command, which is stopped at the end."""
    command = [sys.executable, "-m", "flows.cli", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield list(_until_serving(process.stdout))
    finally:
        process.terminate()
        process.wait(_START_S)


def _until_serving(output: Iterable[str]) -> Iterator[str]:
    for line in output:
        yield line
        if "Ctrl-C" in line:
            return
    raise SystemExit("the command has ended before it served; its output is above")


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """The base URL of a serving command, which is stopped at the end."""
    with started(*arguments) as lines:
        yield next(line.split()[-1] for line in lines if "base URL" in line)


def measure_gateway(model: str, question: str, *, max_new_tokens: int) -> dict[str, float]:
    """Median seconds of a request directly and through the gateway; seconds of 20 requests at once and in turn."""
    with ExitStack() as stack:
        logs = stack.enter_context(tempfile.TemporaryDirectory())
        direct = stack.enter_context(served("serve", model, "--workspace", logs))
        name = OpenAI(base_url=direct, api_key="none").models.list().data[0].id
        gateway = stack.enter_context(
            served(
                *("pacore", "serve", name, "--engine", "url", "--workspace", logs),
                *("--set", f"serve.url={direct}", "--set", f"serve.tokenizer={model}"),
            )
        )
        messages: list[Any] = [{"role": "user", "content": question}]

        def median_seconds(url: str) -> float:
            client = OpenAI(base_url=url, api_key="none")
            return statistics.median(
                timed(
                    lambda: client.chat.completions.create(
                        model=name, messages=messages, max_tokens=1, temperature=0
                    )
                )
                for _ in range(_CALLS)
            )

        async def ask(client: AsyncOpenAI, seed: int) -> None:
            await client.chat.completions.create(
                model=f"{name}:low", messages=messages, max_tokens=max_new_tokens, seed=seed
            )

        async def all_at_once() -> None:
            async with AsyncOpenAI(base_url=gateway, api_key="none") as client:
                await gather_all([ask(client, seed) for seed in range(CLIENTS)])

        async def in_turn() -> None:
            async with AsyncOpenAI(base_url=gateway, api_key="none") as client:
                for seed in range(CLIENTS):
                    await ask(client, seed)

        return {
            "direct": median_seconds(direct),
            "gateway": median_seconds(gateway),
            "at once": timed(lambda: asyncio.run(all_at_once())),
            "in turn": timed(lambda: asyncio.run(in_turn())),
        }


def make_questions(engine: EmbeddedEngine, count: int) -> list[Question]:
    """Test problems of one data set, which the prompts of the model suit."""
    assert engine.chat_format is not None
    dataset = countdown.NAME if engine.chat_format.is_compact else word_problems.NAME
    prepare = PrepareParams(
        dataset=dataset, train_problems=1, test_problems=count, bootstrap_problems=0
    )
    return [
        Question(id=problem.id, conversation=conversation(problem, engine.chat_format))
        for problem in read_problems(Params(seed=SEED, prepare=prepare))[0]
    ]


def main() -> None:
    """Measure, print, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--model", required=True, help="a folder with a chat template")
    parser.add_argument("--problems", type=int, default=64)
    parser.add_argument("--max-new-tokens", type=int, default=80)
    parser.add_argument("--repeats", type=int, default=2)
    add_output(parser)
    arguments = parser.parse_args()
    params = Params(
        pacore=PacoreParams(
            widths=PRESETS["high"], temperature=0.7, max_new_tokens=arguments.max_new_tokens
        )
    )
    model = str(pathlib.Path(arguments.model).resolve())
    engine = EmbeddedEngine.load(model, batch_size=params.pacore.batch_size)
    questions = make_questions(engine, arguments.problems)
    with open_setting(engine, params.pacore, params.verify, seed=SEED) as setting:
        rounds = measure_rounds(engine, questions, setting, repeats=arguments.repeats)
    print(
        f"{engine.arithmetic}; {len(questions)} problems, {rounds['calls']:.0f} calls, "
        f"{rounds['tokens']:.0f} tokens"
    )
    print(
        f"high {rounds['high']:.1f} s, {rounds['high'] / rounds['bound']:.2f} times the bound of "
        f"{rounds['bound']:.1f} s"
    )
    print(
        f"one question {rounds['one question']:.2f} s; its {rounds['calls'] / len(questions):.0f} calls in "
        f"sequence {rounds['its calls in sequence']:.2f} s, "
        f"{rounds['its calls in sequence'] / rounds['one question']:.1f} times as long"
    )
    workers = measure_workers(model, engine, questions, params)
    for name, seconds in workers.items():
        print(f"high {name}: {seconds:.1f} s, {workers['in process'] / seconds:.2f} times as fast")
    gateway = measure_gateway(
        model,
        questions[0].conversation[-1].content,
        max_new_tokens=arguments.max_new_tokens,
    )
    print(
        f"gateway: {1000 * (gateway['gateway'] - gateway['direct']):.1f} ms a call above "
        f"{1000 * gateway['direct']:.1f} ms; {CLIENTS} requests at once {gateway['at once']:.1f} s, in turn "
        f"{gateway['in turn']:.1f} s"
    )
    write_results(arguments.output, {"rounds": rounds, "workers": workers, "gateway": gateway})


if __name__ == "__main__":
    main()
