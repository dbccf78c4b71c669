"""Seconds in which one and two replicas of a classmate answer the questions of a draw, side by side in one run.

Each replica is a process with one thread; nothing else computes meanwhile. Calls are in turns that begin with another
number each time; the ratio is of the medians. Texts are compared, too: they are equal but for rounding. Without
``--peer`` the model is a Llama with random weights, which writes to the last token.

    python -m benchmarks.classmate_replicas --output replicas.json
    python -m benchmarks.classmate_replicas --peer models/smollm2 --questions 32 --tokens 64
"""

import pathlib
import statistics
import tempfile
import time

from benchmarks.lib.command_line import add_output, make_parser, write_results
from flows.ray.classmate_peers import running_peers
from pipeline_lib.determinism import deterministic
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.paths import BootstrapParams, CountdownParams
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.systems.classmate.peer import Question
from pipeline_lib.train.bootstrap import save_blank_policy

NUMBERS = (1, 2)
TIMEOUT_S = 600.0


def main() -> None:
    """Measure, print, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--peer", type=pathlib.Path, help="folder of a model")
    parser.add_argument("--runner", choices=("thread", "ray"), default="thread")
    parser.add_argument("--questions", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64, help="of a continuation at most")
    parser.add_argument("--repeats", type=int, default=5)
    add_output(parser)
    arguments = parser.parse_args()
    problems = generate(CountdownParams(), seed=7, count=arguments.questions)
    questions = [
        Question(problem=problem, prefix="", seeds=(place,))
        for place, problem in enumerate(problems)
    ]
    decoding = Decoding(temperature=0.7, top_p=0.9, max_new_tokens=arguments.tokens)
    seconds: dict[int, list[float]] = {number: [] for number in NUMBERS}
    texts: dict[int, list[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        if arguments.peer is None:
            sizes = BootstrapParams(hidden_size=256, num_layers=6, num_heads=4)
            with deterministic(threads=1, seed=7):
                save_blank_policy(root / "peer", solution_rows(problems, None), sizes)
        model = str(arguments.peer or root / "peer")
        peers = [PeerParams(name=f"of-{one}", model=model, replicas=one) for one in NUMBERS]
        execution = ExecutionParams(runner=arguments.runner)
        with running_peers(peers, execution, root=root) as opened:
            order = [*zip(NUMBERS, opened, strict=True)]
            for repeat in range(arguments.repeats + 1):
                for number, peer in order:
                    began = time.perf_counter()
                    drawn = peer.answer(questions, decoding, timeout_s=TIMEOUT_S)
                    seconds[number] += [time.perf_counter() - began] if repeat else []
                    texts[number] = [one.text for group in drawn for one in group]
                order.reverse()
    for number, found in seconds.items():
        print(
            f"{number} replicas: {statistics.median(found):.2f} s ({min(found):.2f} to {max(found):.2f})"
        )
    ratio = statistics.median(seconds[1]) / statistics.median(seconds[2])
    equal = statistics.mean(one == two for one, two in zip(texts[1], texts[2], strict=True))
    print(f"two answer {ratio:.2f} times as fast as one; {equal:.0%} of the texts are equal")
    write_results(arguments.output, {"seconds": seconds, "ratio": ratio, "equal_share": equal})


if __name__ == "__main__":
    main()
