"""Params of adaptive parallel reasoning (APR): traces, model, supervised training, reinforcement learning."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import override

from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.params.sections import (
    Count,
    Fraction,
    Positive,
    Rate,
    Section,
    Whole,
    head_faults,
    repetition,
)
from pipeline_lib.params.train import LoraParams, TokenSftParams


class ThreadSearchParams(Section):
    """Breadth of the searches of one kind; a beam is drawn for each problem, uniformly."""

    beam_low: Count
    beam_high: Count
    sub_beam: Count
    """compact: operations at each node of a child, or of a serial search, which has no other beam.
    published: the highest beam of a child, drawn from the parent's beam on; serial searches have one beam."""
    branch: Fraction
    """published: probability that found nodes are searched on their own. compact: not used, the root of a
    parallel search always spawns."""


class PartsParams(Section):
    """Questions of several independent parts, in words."""

    parts_low: Annotated[int, Field(ge=2)] = 2
    parts_high: Annotated[int, Field(ge=2)] = 5
    steps_low: Count = 3
    """Calculations of a part."""
    steps_high: Count = 6
    child: Literal["sentence", "expression", "question"] = "sentence"
    """Prompt of a child: the text of its part, an expression that its parent writes, or the whole question and the
    number of the part."""
    terse_children: bool = False
    """Children chain their calculations, as in 4*6=24+13=37."""
    facts: Whole = 5
    """Last steps of further answers, and single steps, that every kind of training has besides, per question, in a
    sequence of their own."""
    wordings_problems: Whole = 100
    """Questions with wordings that no training has."""


class AprDataParams(Section):
    """Problems and their traces: searches of Countdown, questions in parts, or tries of a task of one's own."""

    task: str = "countdown"
    """countdown; parts: questions in words for a language model, `apr.model.base`; or FILE.py, an installed module, or an
    entry point of reasonloop.tasks, whose problems have a column ``tries``, and which has ``THREADS``."""
    parts: PartsParams = PartsParams()
    countdown: CountdownParams = CountdownParams()
    """Ranges of the numbers; threads need at least 3 numbers, and targets from 2 on."""
    train_problems: Count = 8000
    valid_problems: Count = 500
    test_problems: Count = 1000
    style: Literal["compact", "published"] = "compact"
    max_value: Count = 100
    """compact: operations with a larger result are left out."""
    parallel: ThreadSearchParams = ThreadSearchParams(
        beam_low=2, beam_high=9, sub_beam=4, branch=1.0
    )
    serial: ThreadSearchParams = ThreadSearchParams(beam_low=2, beam_high=9, sub_beam=4, branch=0.5)
    shard_size: Count = 500
    """Problems per file of traces, the unit of work and resume."""

    @property
    def form(self) -> Literal["compact", "published", "parts", "tries"]:
        """The style of the texts: of the searches, or of questions in parts; tries is of a task of one's own."""
        if self.task == "countdown":
            return self.style
        return "parts" if self.task == "parts" else "tries"

    @override
    def faults(self) -> Iterator[str]:
        if self.countdown.num_numbers < 3:
            yield (
                f"countdown.num_numbers={self.countdown.num_numbers}; a spawn needs at least 3 numbers"
            )
        if self.countdown.target_low < 2:
            yield (
                f"countdown.target_low={self.countdown.target_low}; searches are guided by the factors of the "
                "target, so give 2 or more"
            )


class AprModelParams(Section):
    """A language model, or a Llama with random weights."""

    base: str | None = None
    """Hugging Face folder or hub id of the language model that is trained on questions in words; null: a Llama of
    the sizes below."""
    lora: LoraParams = LoraParams()
    """Adapters on ``base``; not enabled: its weights are trained."""
    window: Annotated[int, Field(ge=32)] = 256
    """Tokens of a sequence, prompt and end token included; longer sequences are not trained on."""
    hidden_size: Count = 128
    feed_forward_size: Count = 384
    num_layers: Count = 4
    num_heads: Count = 4
    initializer_range: Positive = 0.02
    """Deviation of random weights."""

    @override
    def faults(self) -> Iterator[str]:
        yield from head_faults(self.hidden_size, self.num_heads)


class AprSftParams(TokenSftParams):
    """Supervised training on traces."""

    loss_on: Literal["drawn", "all"] = "drawn"
    """Tokens with a loss: those that a model draws, or prefixes as well."""
    conditioned: Fraction = 0.5
    """Share of the problems whose sequences have the condition of their trace before them."""
    join_share: Fraction = 0.2
    """Share of the parent's segments after a join that are trained on; each has a long prefix and few
    drawn tokens."""
    failed_children: Whole | None = 3
    """Children without a solution that are trained on, per problem, at most; null: all."""


class AprRlParams(Section):
    """GRPO over rollouts of threads, drawn in the training process."""

    steps: Whole = 30
    """Each draws rollouts and makes all updates on them; 0: `reasonloop apr run` leaves it out."""
    prompts: Count = 16
    """Problems of a step."""
    group_size: Annotated[int, Field(ge=2)] = 5
    """Rollouts of each problem."""
    updates: Count = 2
    """Optimizer steps on each draw."""
    lr: Positive = 1e-4
    """Learning rate of AdamW, constant; 1e-5 in the paper, whose model is 250 times as large."""
    clip: Rate = 0.2
    """Largest distance of a probability ratio from 1."""
    kl_coef: Annotated[float, Field(ge=0)] = 0.001
    """Weight of the divergence (k3) from the start of training, for parallel models."""
    serial_kl_coef: Annotated[float, Field(ge=0)] = 0.01
    """The same for serial models."""
    reward: Literal["binary", "speed", "threads", "length"] = "binary"
    """Of a right claim; a wrong one has 0. speed: 1 plus half of the share of tokens off the critical path,
    up to 1.1. threads, length: 1 less a penalty, at least 0."""
    penalty: Annotated[float, Field(ge=0)] = 0.02
    """threads: of each child; length: of each 100 drawn tokens."""
    children: Whole | None = None
    """Condition of parallel models: children of a spawn, 0: none. null: in `reasonloop apr run` the one that is
    chosen on the valid problems, in `apr rl` none if the model was trained so, else the largest."""
    tokens: Whole | None = None
    """Condition of serial models: tokens of a sequence; the same."""
    rollouts: Literal["in_process", "endpoint"] = "in_process"
    """endpoint: the engine of `serve` draws, with the adapter of every step; needs `apr.model.lora`."""
    rollout: str | None = None
    """FILE.py:function or module:function that draws and judges, in place of `ThreadDraws`; see docs/apr.md."""
    grammar: str | None = None
    """FILE.py:name or module:name of a `ThreadGrammar` in place of a language model's; null: THREADS of a task."""
    code_digest: str | None = None
    """Of both; it is read from their files."""
    pass_tokens: Count = 2048
    """Tokens of a forward/backward pass, padding included, at most."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of matrix products in the loss, by autocast over float32 weights; draws keep the precision of the
    engine."""
    checkpoint_every: Count = 5
    """Steps."""
    threads: Count = 1
    """CPU threads of torch; part of the result, since they change the rounding of sums."""


class AprEvaluateParams(Section):
    """Rollouts of `reasonloop apr run`; `reasonloop apr evaluate` has options for the same."""

    children: Whole | None = None
    """Condition of the parallel models: children of a spawn, 0: none. null: the one that is chosen on the
    valid problems."""
    tokens: Whole | None = None
    """Condition of the serial models: tokens of a sequence; the same."""
    temperatures: Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1)] = (0, 1)
    samples: Count = 1
    """Rollouts of each problem at temperatures above 0."""
    serial_samples: Count | None = None
    """The same of serial models, which draw fewer tokens; null: ``samples``."""
    batch_size: Count = 64
    """Sequences decoded together in process."""

    @override
    def faults(self) -> Iterator[str]:
        yield from repetition(temperatures=self.temperatures)


class AprParams(Section):
    """Adaptive parallel reasoning (APR), from traces to evaluation."""

    data: AprDataParams = AprDataParams()
    model: AprModelParams = AprModelParams()
    sft: AprSftParams = AprSftParams()
    rl: AprRlParams = AprRlParams()
    evaluate: AprEvaluateParams = AprEvaluateParams()
    processes: Count = 1
    """Of each training, on Ray, with a share of every batch each; the result is the same up to rounding."""

    @override
    def faults(self) -> Iterator[str]:
        if self.rl.prompts % self.processes:
            yield f"processes={self.processes}; does not divide rl.prompts={self.rl.prompts}"
        if self.rl.rollouts == "endpoint" and not self.model.lora.enabled:
            yield (
                "rl.rollouts=endpoint: an engine takes adapters alone between steps; set model.lora.enabled=true, or "
                "draw in_process"
            )
        if self.model.lora.enabled and self.sft.optimizer == "muon":
            yield "sft.optimizer=muon: Muon trains whole matrices; set adamw for adapters (model.lora)"
        if self.sft.step_tokens < self.model.window:
            yield (
                f"sft.step_tokens={self.sft.step_tokens} is below model.window={self.model.window}; a step "
                "holds whole sequences"
            )
