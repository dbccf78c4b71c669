"""Params of PaCoRe: parallel answers, compacted, synthesized.

Source: PaCoRe, arXiv:2601.05593.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, field_validator
from typing_extensions import override

from pipeline_lib.kinds.table import KINDS
from pipeline_lib.params.sections import Count, Fraction, Positive, Section, Whole, head_faults
from pipeline_lib.params.train import ONLINE, Method, PpoParams, TokenSftParams, TrainParams

PRESETS: Mapping[str, tuple[int, ...]] = {"low": (4,), "medium": (16,), "high": (32, 4)}
"""Published widths by name, without the last round of one call."""


class Compaction(StrEnum):
    """From a path to the message that later rounds see."""

    CONCLUSION = "conclusion"
    """The text after the last ``</think>``, else the whole."""
    ANSWER = "answer"
    """The extracted final answer."""
    MODEL = "model"
    """A short summary, drawn from the model by one more call per path."""


class Final(StrEnum):
    """The answer that follows the rounds of ``widths``."""

    SYNTHESIS = "synthesis"
    """One more path, which sees the last round."""
    VOTE = "vote"
    """The answer of most paths of the last round; nothing more is drawn."""
    WEIGHTED = "weighted"
    """The same, each path with the weight of its model, or with its probability per token."""


class EarlyStop(Section):
    """A round ends before its width once its answers agree; the calls that are left are never sent."""

    minimum: Annotated[int, Field(ge=2)] = 4
    """Paths drawn together; agreement is checked after each such group."""
    share: Annotated[float, Field(gt=0.5, le=1)] = 0.75
    """Share of the drawn paths, those without an answer included, that have the leading answer."""


class Rsa(Section):
    """Recursive self-aggregation: every path of a step is a synthesis of a random subset of the last step's.

    Source: RSA, arXiv:2509.26626.
    """

    population: Annotated[int, Field(ge=2)] = 16
    """Paths per step."""
    subset: Count = 4
    """References of each synthesis."""
    steps: Count = 10
    """Steps, the first with plain paths included; one last synthesis follows."""

    @override
    def faults(self) -> Iterator[str]:
        if self.subset > self.population:
            yield f"subset={self.subset}; a population has {self.population} paths"


class EpisodeParams(Section):
    """Episodes of training a synthesizer: one synthesis each, of messages from a cache.

    Defaults are for the policy of the default run, which must learn to read references at all.
    """

    references: tuple[Count, Count] = (2, 4)
    """Fewest and most references of an episode; the number is uniform in between, or up to the messages that
    there are if these are fewer."""
    draws: Count = 8
    """Episodes per problem, each with references of its own."""
    target: Literal["held_out", "reference"] = "reference"
    """Completion of SFT: a right response whose message is not among the references; or the first right
    reference, and such a response only where all references are wrong."""
    checks: bool = False
    """Completions of SFT begin with a check of each reference, between <think> and </think>: what
    `Kind.check_text` computes, then y or n."""
    plain: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of SFT rows that are the question without references; with 1 the training is the control of a
    synthesizer."""
    max_mean_right: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Problems are kept whose cached responses are right with a mean above 0 and below this. Published: 9/24
    for math, 15/24 for code."""
    filter_draws: Whole = 0
    """Online methods: syntheses per problem that the base draws, after its warm start if there is one; problems are
    kept whose syntheses are neither all right nor all wrong. 0: no such filter."""

    @override
    def faults(self) -> Iterator[str]:
        if self.filter_draws == 1:
            yield "filter_draws=1; one synthesis is always all right or all wrong, give 2 or more"
        low, high = self.references
        if low > high:
            yield f"references={[low, high]}; give the fewest first"


class LlamaSizes(Section):
    """Of a small Llama, by the names of its config."""

    hidden_size: Count = 64
    intermediate_size: Count = 160
    num_hidden_layers: Count = 2
    num_attention_heads: Count = 2
    max_position_embeddings: Count = 1024
    """Tokens, answer included."""
    initializer_range: Positive = 0.1

    @override
    def faults(self) -> Iterator[str]:
        yield from head_faults(self.hidden_size, self.num_attention_heads)


class ScratchParams(Section):
    """A small Llama that learns paths and syntheses from scratch, on tries of the parts of each problem.

    Defaults are for locks.
    """

    task: str = "locks"
    """FILE.py, an installed module, or an entry point of reasonloop.tasks, whose problems have a column ``tries``."""
    train_problems: Count = 5000
    """They are repeated, each time with other tries."""
    test_problems: Count = 300
    llama: LlamaSizes = LlamaSizes()
    references: Annotated[tuple[Count, ...], Field(min_length=1)] = (1, 2, 4, 8, 16, 32)
    """Numbers of references, each for as many tokens; as wide as the rounds of the evaluation."""
    first_references: Annotated[tuple[Count, ...], Field(min_length=1)] = (1, 2, 3, 4)
    """Their numbers at the beginning."""
    first_share: Fraction = 0.3
    """Share of the training that is the beginning."""
    hits_low: Fraction = 0.05
    hits_high: Fraction = 0.95
    """Bounds of the share of right tries in references; it is uniform in between, one for a row."""
    paths: Annotated[float, Field(gt=0, le=1)] = 0.23
    """Share of the tokens that is plain paths; with 1 the training is the control of a synthesizer."""
    solved: Fraction = 0.6
    """Share of the plain paths that is solutions; others are random tries, as honest."""
    retries: bool = False
    """Also trains, for as many tokens, a policy that tries choices of a part one after another until one is right, and
    compares with one such path, and with several at once."""
    weighted_references: Whole = 2
    """References of a row that have a loss, on what follows from their choices."""
    sft: TokenSftParams = TokenSftParams(
        tokens=12_700_000,
        step_tokens=4550,
        lr=3e-3,
        precision="float32",
        warmup_fraction=0.03,
        checkpoint_every=500,
    )


class SynthesizerTrainParams(TrainParams):
    """Training of a synthesizer."""

    branches: Literal["cached", "drawn"] = "cached"
    """References of an online method. cached: messages of the cache, the same at every step. drawn: of paths that the
    present policy draws at every step for the problems of that step."""


class ComparisonParams(Section):
    """Strategies that an evaluation compares with votes over plain paths."""

    widths: Annotated[tuple[tuple[Count, ...], ...], Field(min_length=1)] = (
        *((16,), (4,), (1,), (32, 4)),
    )
    """Widths of the rounds of each strategy; the evaluation is about the first."""
    greedy: bool = True
    """Adds each of ``widths`` with a last call at temperature 0, before the others, and one greedy path to the votes."""
    other_references: bool = True
    """Adds the first of ``widths`` with a first round of paths of another question: what a synthesis owes to reading."""
    early_stop: EarlyStop | None = EarlyStop()
    """Adds the first of ``widths`` that is wider than one group, with this early stop; null: none."""
    rsa: Rsa | None = Rsa(population=8, subset=4, steps=2)
    """Adds recursive self-aggregation; null: none."""
    plain_paths: Count = 40
    """Independent paths per problem, for the votes; more than any first round, so that one is left over."""

    @override
    def faults(self) -> Iterator[str]:
        widest = max(
            [widths[0] for widths in self.widths] + [self.rsa.population if self.rsa else 0]
        )
        if self.plain_paths <= widest:
            yield f"plain_paths={self.plain_paths}; a first round has {widest}, give more"


class PacoreParams(Section):
    """Rounds of parallel paths, each with the compacted paths of the round before as references."""

    widths: tuple[Count, ...] = PRESETS["low"]
    """Paths of each round; the last call or vote of ``final`` follows, and without rounds one plain call."""
    rsa: Rsa | None = None
    """Recursive self-aggregation instead of rounds of ``widths``."""
    final: Final = Final.SYNTHESIS
    weights: Mapping[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = {}
    """Weight of each model's votes in final ``weighted``, by name; empty: probability per token."""
    compaction: Compaction = Compaction.CONCLUSION
    kind: str = "math"
    """Kind of answer that ``early_stop`` and compaction ``answer`` extract and compare."""
    early_stop: EarlyStop | None = None
    temperature: Annotated[float, Field(ge=0)] = 1.0
    last_temperature: Annotated[float, Field(ge=0)] | None = None
    """Temperature of the round after others that gives the answer; null: ``temperature``."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_new_tokens: Count | None = None
    """Tokens of one call; null: 1024, or 192 for a model that reads compact prompts."""
    summary_tokens: Count = 256
    """Tokens of one call of compaction ``model``."""
    problems_together: Count = 100
    """Problems of a file that are worked on at once."""
    batch_size: Count | None = None
    """Paths decoded together by the embedded engine; null: 64, or up to 512 whose keys and values fit in 1 GiB."""
    max_requests: Count = 64
    """Requests in flight at the gateway; a further one is refused with status 429."""
    source: str | None = None
    """Workspace of the finished run whose policy the stages take; null: their own workspace."""
    start: Literal["scratch", "policy", "base"] = "scratch"
    """Initial policy of the stages. scratch: random weights, on the task of ``scratch``. policy: of a finished run.
    base: the base policy, which they make first."""
    scratch: ScratchParams = ScratchParams()
    cached_paths: Count = 8
    """Paths per train problem in the cache of the stages."""
    evaluate: ComparisonParams = ComparisonParams()
    episodes: EpisodeParams = EpisodeParams()
    train: SynthesizerTrainParams = SynthesizerTrainParams(
        lr=2e-3,
        steps=600,
        batch_size=32,
        warm_start_steps=0,
        ppo=PpoParams(gae_lambda=1.0, minibatches=1),
    )
    """PPO as published: gamma = lambda = 1, no KL penalty, one update a draw."""

    @override
    def faults(self) -> Iterator[str]:
        method, branches = self.train.method, self.train.branches
        methods = ONLINE if branches == "drawn" else ONLINE | {Method.SFT}
        if method not in methods:
            yield f"train.method={method}; with branches={branches} it is one of {', '.join(sorted(methods))}"
        if branches == "drawn" and self.compaction is Compaction.MODEL:
            yield "train.branches=drawn; a training draws no summaries: set compaction=conclusion or answer"
        if self.start != "policy" and self.source is not None:
            yield f"source={self.source}; its policy is for start=policy, not start={self.start}"

    @property
    def votes(self) -> bool:
        """The answer is elected from the last of ``widths``; without rounds there is nothing to elect from."""
        return self.final is not Final.SYNTHESIS and bool(self.widths or self.rsa)

    @field_validator("kind")
    @classmethod
    def _comparable(cls, name: str) -> str:
        known = [kind.name for kind in KINDS.values() if kind.votable]
        if name not in known:
            raise ValueError(f"kind={name}; expected one of {', '.join(known)}")
        return name
