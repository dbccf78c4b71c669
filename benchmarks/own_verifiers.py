"""Time that texts take on which a verifier of one's own misbehaves.

The same verifier, with a fixed CPU time a verdict, judges texts on which it behaves, and as many of which 5 % make it
raise, hang, crash, fork, take 2 GiB, print 100 MB, or return NaN, a string or 7. The ratio is without the deadlines
that were reached, as far as workers waited for them.

    python -m benchmarks.own_verifiers --workers 2
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.kinds.own import own_gold
from pipeline_lib.params.paths import OwnLimits, VerifyParams
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.dispatch import Item, open_verifier

_EVERY = 20
"""Of so many texts one is misbehaved on."""
_WORK_S = 0.02


def _raise() -> object:
    raise ValueError("odd")


def _print() -> bool:
    for _ in range(100):
        print("x" * 1_000_000)
    return True


BEHAVIOURS: dict[str, Callable[[], object]] = {
    "raise": _raise,
    "hang": lambda: time.sleep(600),
    "crash": lambda: os.kill(os.getpid(), 11),
    "fork": lambda: os.fork() >= 0,
    "2 GiB": lambda: len(bytearray(2 << 30)),
    "100 MB": _print,
    "NaN": lambda: float("nan"),
    "string": lambda: "right",
    "seven": lambda: 7,
}


def verify(answer: str, text: str) -> object:
    """Right, after some work, unless the text names a behaviour."""
    until = time.process_time() + _WORK_S
    while time.process_time() < until:
        pass
    return BEHAVIOURS[text]() if text in BEHAVIOURS else text == answer


def main() -> None:
    """Print both times and the ratio, and write them as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--deadline", type=float, default=2.0, help="seconds")
    add_output(parser)
    options = parser.parse_args()
    params = VerifyParams(
        verifier="benchmarks.own_verifiers:verify", own=OwnLimits(timeout_s=options.deadline)
    )
    names = [*BEHAVIOURS]
    mixed = [
        "4" if place % _EVERY else names[place // _EVERY % len(names)]
        for place in range(options.texts)
    ]
    good_s, _ = _timed(params, ["4"] * options.texts, workers=options.workers)
    mixed_s, found = _timed(params, mixed, workers=options.workers)
    deadlines = found[Status.TIMEOUT.value]
    ratio = (mixed_s - deadlines / options.workers * options.deadline) / good_s
    print(f"{options.texts} texts, {options.workers} workers, deadline {options.deadline:g} s")
    print(f"behaves: {good_s:.1f} s; misbehaves on {options.texts // _EVERY}: {mixed_s:.1f} s")
    print(f"deadlines reached: {deadlines}; verdicts: {dict(found)}")
    print(f"ratio: {mixed_s / good_s:.2f}, without deadlines {ratio:.2f}")
    result = {"good_s": good_s, "mixed_s": mixed_s, "deadlines": deadlines, "ratio": ratio}
    write_results(options.output, result)


def _timed(
    params: VerifyParams, texts: Sequence[str], *, workers: int
) -> tuple[float, Counter[str]]:
    """Seconds without the import of the code, and statuses."""
    with open_verifier(params, workers=workers) as verifier:
        gold = own_gold("4")
        verifier.judge([Item(gold=gold, text="4")])
        start = time.perf_counter()
        verdicts = verifier.judge([Item(gold=gold, text=text) for text in texts])
        return time.perf_counter() - start, Counter(one.status.value for one in verdicts)


if __name__ == "__main__":
    main()
