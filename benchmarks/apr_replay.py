"""Wall time of parallel against serial traces at a server: each problem's sequences at their exact lengths.

One problem at a time, the children of a spawn at once. What is drawn does not matter, so any weights will do; the
server must be vLLM, which draws on past end tokens when it is asked to. Seconds a token, with 1 to k sequences at
once, and seconds a call are measured there, in rounds between the replays. From these, the critical tokens and the
calls in the chain follow predicted seconds, and a predicted ratio of serial over parallel; beside it is the ratio
of the tokens alone.

    reasonloop apr generate --profile apr-four --set apr.data.train_problems=200 --output data/four
    reasonloop apr train data/four --kind serial --output models/four --profile apr-four \
        --set apr.sft.tokens=40000 --set apr.model.window=2048
    reasonloop serve models/four --engine vllm --port 8300
    python -m benchmarks.apr_replay data/four --url http://127.0.0.1:8300/v1 --problems 40
"""

import argparse
import asyncio
import collections
import itertools
import pathlib
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.store.shards import iter_table
from pipeline_lib.systems.apr.countdown.lines import KINDS, Kind
from pipeline_lib.systems.apr.countdown.tokens import count_tokens
from pipeline_lib.systems.apr.data_folder import check_data, read_settings, traces_folder

_LENGTHS = 32, 160
"""Tokens of the calls by which the speeds are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One call."""

    prompt: str
    tokens: int
    """That are drawn, the end token included."""


Chain = Sequence[Sequence[Draw]]
"""Steps that follow each other, each with the calls that are made at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Of a server, by the number of sequences at once."""

    token_s: Mapping[int, float]
    call_s: Mapping[int, float]
    """Of a step of calls beyond its tokens: request, prompt, answer."""

    def predict(self, chain: Chain) -> float:
        """Seconds of a chain. Of calls at once, those that are done make room for the others."""
        return sum(self.call_s[len(step)] + self._tokens_s(step) for step in chain)

    def _tokens_s(self, step: Sequence[Draw]) -> float:
        ends = [0, *sorted(draw.tokens for draw in step)]
        return sum(
            (end - begin) * self.token_s[len(step) - done]
            for done, (begin, end) in enumerate(itertools.pairwise(ends))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One problem, by kind of trace."""

    problem_id: str
    seconds: Mapping[Kind, float]
    predicted_s: Mapping[Kind, float]
    critical_tokens: Mapping[Kind, int]
    calls: Mapping[Kind, int]
    """In the chain."""


class Server:
    """Completions of exact lengths."""

    def __init__(self, client: httpx.AsyncClient, model: str) -> None:
        """Draw from ``model`` by the requests of ``client``."""
        self._client = client
        self._model = model

    async def draw(self, draw: Draw) -> None:
        """Draw the tokens of one call."""
        answer = await self._client.post(
            "completions",
            json={
                "model": self._model,
                "prompt": draw.prompt,
                "max_tokens": draw.tokens,
                "ignore_eos": True,
                "temperature": 1.0,
            },
        )
        answer.raise_for_status()
        drawn = answer.json()["usage"]["completion_tokens"]
        if drawn != draw.tokens:
            raise SystemExit(f"the server drew {drawn} of {draw.tokens} tokens; serve by vLLM")

    async def seconds(self, chain: Chain) -> float:
        """Wall time of a chain."""
        start = time.perf_counter()
        for step in chain:
            async with asyncio.TaskGroup() as group:
                for draw in step:
                    group.create_task(self.draw(draw))
        return time.perf_counter() - start


class SpeedMeter:
    """Times of calls of two lengths, for each number of sequences at once."""

    def __init__(self, server: Server, prompt: str, widths: Sequence[int]) -> None:
        """Call ``server`` with ``prompt``."""
        self._server = server
        self._prompt = prompt
        self._widths = widths
        self._seconds: dict[tuple[int, int], list[float]] = collections.defaultdict(list)

    async def measure(self) -> None:
        """Add one time of each."""
        for width, length in itertools.product(self._widths, _LENGTHS):
            step = [Draw(prompt=self._prompt, tokens=length)] * width
            self._seconds[width, length].append(await self._server.seconds([step]))

    def speeds(self) -> Speeds:
        """Of the means, since what is predicted is a sum of times."""
        token_s, call_s = {}, {}
        short, long = _LENGTHS
        for width in self._widths:
            times = {length: statistics.mean(self._seconds[width, length]) for length in _LENGTHS}
            token_s[width] = (times[long] - times[short]) / (long - short)
            call_s[width] = times[short] - short * token_s[width]
        return Speeds(token_s=token_s, call_s=call_s)


def read_chains(data: pathlib.Path, kind: Kind, *, window: int) -> dict[str, Chain]:
    """The chains of the traces that fit the window, by problem."""
    num_numbers = read_settings(data).data.countdown.num_numbers
    chains: dict[str, Chain] = {}
    rows = iter_table(traces_folder(data, kind))
    for problem_id, own in itertools.groupby(rows, key=lambda row: row["problem_id"]):
        steps: dict[tuple[int, str], list[Draw]] = {}
        fits = True
        for row in own:
            prompt = row["condition"] + row["prefix"]
            tokens = count_tokens(row["output"], num_numbers=num_numbers) + 1
            fits &= count_tokens(prompt, num_numbers=num_numbers) + tokens <= window
            # In each round the parent's segment, then its children.
            place = (row["round"], "" if row["role"] == "parent" else "child")
            steps.setdefault(place, []).append(Draw(prompt=prompt, tokens=tokens))
        if fits:
            chains[problem_id] = [steps[place] for place in sorted(steps)]
    return chains


async def replay(
    url: str, chains: Mapping[Kind, Mapping[str, Chain]], *, problems: int, repeats: int
) -> tuple[Speeds, list[Replay]]:
    """Replay the first problems that both kinds have, and measure the speeds in between."""
    names = [name for name in chains["serial"] if name in chains["parallel"]][:problems]
    own = {kind: {name: chains[kind][name] for name in names} for kind in KINDS}
    widths = range(
        1, 1 + max(len(step) for by_name in own.values() for c in by_name.values() for step in c)
    )
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        models = (await client.get("models")).raise_for_status().json()
        server = Server(client, models["data"][0]["id"])
        prompt = own["serial"][names[0]][0][0].prompt
        await SpeedMeter(server, prompt, widths).measure()  # warm-up
        meter = SpeedMeter(server, prompt, widths)
        seconds: dict[str, dict[Kind, float]] = {}
        for place, name in enumerate(names):
            # The speed of a shared machine changes; rounds between the replays see the same changes.
            if place * repeats // len(names) != (place - 1) * repeats // len(names):
                await meter.measure()
            seconds[name] = {}
            for kind in KINDS if place % 2 else KINDS[::-1]:
                seconds[name][kind] = await server.seconds(own[kind][name])
    speeds = meter.speeds()
    return speeds, [
        Replay(
            problem_id=name,
            seconds=seconds[name],
            predicted_s={kind: speeds.predict(own[kind][name]) for kind in KINDS},
            critical_tokens={kind: _critical(own[kind][name]) for kind in KINDS},
            calls={kind: len(own[kind][name]) for kind in KINDS},
        )
        for name in names
    ]


def _critical(chain: Chain) -> int:
    return sum(max(draw.tokens for draw in step) for step in chain)


def summarize(found: Sequence[Replay]) -> dict[str, Any]:
    """Ratios of serial over parallel, of the sums over all problems."""

    def ratio(name: str) -> float:
        serial, parallel = (sum(getattr(one, name)[kind] for one in found) for kind in KINDS[::-1])
        return float(serial / parallel)

    measured, predicted = ratio("seconds"), ratio("predicted_s")
    return {
        "problems": len(found),
        "measured": measured,
        "predicted": predicted,
        "measured_over_predicted": measured / predicted,
        "critical_tokens": ratio("critical_tokens"),
    }


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)
    parser.add_argument("data", type=pathlib.Path, help="folder of `reasonloop apr generate`")
    parser.add_argument(
        "--url", required=True, help="a vLLM server of a model with the data's tokenizer"
    )
    parser.add_argument("--problems", type=int, default=40)
    parser.add_argument(
        "--window", type=int, default=2048, help="of the server; longer traces are left out"
    )
    parser.add_argument(
        "--repeats", type=int, default=10, help="rounds of calls by which the speeds are measured"
    )
    add_output(parser)
    return parser.parse_args()


def main() -> None:
    """Measure, replay, print, write."""
    arguments = parse_arguments()
    check_data(arguments.data)
    chains = {kind: read_chains(arguments.data, kind, window=arguments.window) for kind in KINDS}
    speeds, found = asyncio.run(
        replay(
            arguments.url.rstrip("/") + "/",
            chains,
            problems=arguments.problems,
            repeats=arguments.repeats,
        )
    )
    for width, token_s in speeds.token_s.items():
        call_ms = 1000 * speeds.call_s[width]
        print(f"{width} at once: {1000 * token_s:.2f} ms a token, {call_ms:.1f} ms a step of calls")
    summary = summarize(found)
    for kind in KINDS:
        sums = {
            name: sum(getattr(one, name)[kind] for one in found)
            for name in ("seconds", "predicted_s")
        }
        tokens, calls = (
            statistics.mean(getattr(one, name)[kind] for one in found)
            for name in ("critical_tokens", "calls")
        )
        print(
            f"{kind}: {sums['seconds']:.2f} s, predicted {sums['predicted_s']:.2f} s; "
            f"{tokens:.0f} critical tokens, {calls:.1f} calls in the chain"
        )
    print(
        f"serial / parallel over {summary['problems']} problems: {summary['measured']:.2f} measured, "
        f"{summary['predicted']:.2f} predicted ({summary['measured_over_predicted']:.2f} of it), "
        f"{summary['critical_tokens']:.2f} by tokens alone"
    )
    settings = {key: str(value) for key, value in vars(arguments).items() if key != "output"}
    write_results(
        arguments.output,
        {
            "settings": settings,
            "speeds": asdict(speeds),
            **summary,
            "replays": [*map(asdict, found)],
        },
    )


if __name__ == "__main__":
    main()
