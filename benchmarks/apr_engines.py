"""Equality of greedy rollouts, and of their tokens' log-probabilities, in this process and at a server, in float32.

Engines batch and round differently, so that a near tie of two tokens may be decided either way. Each rollout
that differs is followed to its first differing token, and the log-probabilities of both are compared in this
process: the rollouts part at a near tie if they differ by less than `NEAR_TIE`. The server runs already, as of
one of these commands; the problems are those of the split `valid`.

    reasonloop serve models/apr-parallel --port 8300
    reasonloop serve models/apr-parallel --engine vllm --set 'serve.options=[--dtype,float32]' --port 8300
    python -m benchmarks.apr_engines models/apr-parallel --data data/apr --url http://127.0.0.1:8300/v1
"""

import argparse
import pathlib
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine, shared_engine
from pipeline_lib.engines.tokens import encode_completion
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.apr.data_folder import check_data, problem_file
from pipeline_lib.systems.apr.evaluation.plans import EvaluationSetting, make_plans
from pipeline_lib.systems.apr.evaluation.problem_source import ProblemSource
from pipeline_lib.systems.apr.model_record import read_record
from pipeline_lib.systems.apr.problem_lines import read_problems
from pipeline_lib.systems.apr.task import ThreadTask
from pipeline_lib.systems.apr.tasks import task_of
from pipeline_lib.systems.apr.threads import Rollout

SEED = 7
NEAR_TIE = 1e-3
"""In nats; float32 sums of these models differ by some 1e-5 between batches."""
_BATCH = 64

Texts = list[tuple[str, str]]
"""Prefix and output of each sequence of a rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first place at which two rollouts of a problem differ."""

    problem_id: str
    sequence: int
    """Place among the sequences of the rollout."""
    gap: float | None
    """Difference of the log-probabilities of both tokens, in nats; None if no token differs there."""

    @property
    def is_near_tie(self) -> bool:
        """True if either token may be drawn."""
        return self.gap is not None and self.gap < NEAR_TIE


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Rollouts of the same problems by two engines."""

    problems: int
    differences: Sequence[Difference]
    logprob_gap: float
    """Mean absolute difference of the log-probabilities of the tokens that both drew in equal sequences, in nats."""

    @property
    def equal(self) -> int:
        """Problems with equal rollouts."""
        return self.problems - len(self.differences)


def compare_engines(
    model: pathlib.Path, problems: Sequence[Problem], serve: ServeParams
) -> Agreement:
    """Draw greedily in this process and at the server of ``serve``, and compare the rollouts."""

    def draw(server: ServeParams | None) -> list[Rollout]:
        setting = EvaluationSetting(
            children=(),
            tokens=(),
            temperatures=(0.0,),
            samples=1,
            first_success=False,
            serve=server,
            evaluate=EvaluateParams(resamples=100),
            verify=VerifyParams(),
            seed=SEED,
        )
        [plan] = make_plans({"m": model}, ProblemSource(problems=problems), setting)
        return plan.draw(problems)

    pairs = list(zip(draw(None), draw(serve), strict=True))
    engine = shared_engine(str(model), batch_size=_BATCH)
    task = task_of(read_record(model), engine.tokenizer, VerifyParams())
    gaps = [
        abs(a - b)
        for here, there in pairs
        for one, other in zip(here.sequences, there.sequences, strict=False)
        if (one.prefix, one.output_ids) == (other.prefix, other.output_ids)
        for a, b in zip(one.logprobs or (), other.logprobs or (), strict=True)
    ]
    return Agreement(
        problems=len(problems),
        differences=[
            find_difference(engine, task, here.root.problem_id, _texts(here), _texts(there))
            for here, there in pairs
            if _texts(here) != _texts(there)
        ],
        logprob_gap=statistics.fmean(gaps),
    )


def _texts(rollout: Rollout) -> Texts:
    return [(one.prefix, one.output) for one in rollout.sequences]


def find_difference(
    engine: EmbeddedEngine, task: ThreadTask, problem_id: str, here: Texts, there: Texts
) -> Difference:
    """The first difference of two rollouts of one problem."""
    pairs = list(zip(here, there, strict=False))
    place = next((i for i, (one, other) in enumerate(pairs) if one != other), len(pairs))
    gap = None
    if place < len(pairs) and pairs[place][0][0] == pairs[place][1][0]:
        (prefix, one), (_, other) = pairs[place]
        gap = _gap(engine, task.tokens.encode(task.wire(prefix)), one, other)
    return Difference(problem_id=problem_id, sequence=place, gap=gap)


@torch.no_grad()
def _gap(engine: EmbeddedEngine, context: Sequence[int], one: str, other: str) -> float:
    """Distance in nats of the tokens at which two outputs part; an end token follows each output."""
    tokenizer = engine.tokenizer
    outputs = [
        [*encode_completion(tokenizer, text), tokenizer.eos_token_id] for text in (one, other)
    ]
    shared = next(i for i, (a, b) in enumerate(zip(*outputs, strict=False)) if a != b)
    ids = [*context, *outputs[0][:shared]]
    logits_V = engine.model(input_ids=torch.tensor([ids])).logits[0, -1].float()
    first, second = (float(logits_V[output[shared]]) for output in outputs)
    return abs(first - second)


def show(found: Agreement) -> None:
    """Print the counts, and each difference."""
    print(
        f"{found.equal} of {found.problems} rollouts are equal; log-probabilities of their tokens differ by "
        f"{found.logprob_gap:.2g} nats in the mean"
    )
    for one in found.differences:
        gap = "no common prefix" if one.gap is None else f"{one.gap:.2g} nats"
        near = "a near tie" if one.is_near_tie else "NO near tie"
        print(f"{one.problem_id}, sequence {one.sequence}: {gap}, {near}")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)
    parser.add_argument("model", type=pathlib.Path, help="folder of `reasonloop apr train`")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--url", required=True, help="server of the model")
    parser.add_argument("--problems", type=int, default=100, help="of the valid split")
    add_output(parser)
    return parser.parse_args()


def main() -> None:
    """Draw, compare, print, write."""
    arguments = parse_arguments()
    check_data(arguments.data)
    problems = read_problems(problem_file(arguments.data, "valid"))[: arguments.problems]
    serve = ServeParams(engine="url", url=arguments.url, tokenizer=str(arguments.model))
    found = compare_engines(arguments.model, problems, serve)
    show(found)
    settings = {key: str(value) for key, value in vars(arguments).items() if key != "output"}
    differences = [asdict(one) | {"is_near_tie": one.is_near_tie} for one in found.differences]
    results = {
        "problems": found.problems,
        "equal": found.equal,
        "logprob_gap": found.logprob_gap,
        "differences": differences,
    }
    write_results(arguments.output, {"settings": settings, **results})


if __name__ == "__main__":
    main()
