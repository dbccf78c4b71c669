"""Params of training a policy on verified paths."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import override

from pipeline_lib.params.sections import Count, Fraction, Positive, Rate, Section, Whole, repetition


class Method(StrEnum):
    """The training method."""

    SFT = "sft"
    DPO = "dpo"
    GRPO = "grpo"
    RLOO = "rloo"
    PPO = "ppo"


ONLINE = frozenset({Method.GRPO, Method.RLOO, Method.PPO})
"""Methods that sample during training, ``group_size`` paths per prompt."""
_GROUP_RELATIVE = frozenset({Method.GRPO, Method.RLOO})
"""Online methods whose default advantage is relative to the prompt's group."""


class Variant(StrEnum):
    """The loss of GRPO; `train.online.grpo` defines each."""

    DAPO = "dapo"
    GRPO = "grpo"
    DR_GRPO = "dr_grpo"
    GSPO = "gspo"
    CISPO = "cispo"


class LoraParams(Section):
    """Adapters on all linear layers instead of full fine-tuning."""

    enabled: bool = False
    rank: Count = 16
    alpha: Count = 32
    quantize: Literal["none", "8bit", "4bit"] = "none"
    """Precision of the frozen base under adapters: 8bit is LLM.int8, 4bit is QLoRA's NF4. Both need CUDA and
    bitsandbytes."""

    @override
    def faults(self) -> Iterator[str]:
        if self.quantize != "none" and not self.enabled:
            yield (
                f"quantize={self.quantize}; only the base under adapters is quantized, so it needs "
                "enabled=true"
            )


class TokenSftParams(Section):
    """Supervised training whose length and steps are tokens."""

    tokens: Count = 16_000_000
    """Length of the training, prompts included; rows are repeated as needed."""
    step_tokens: Count = 8192
    """Tokens of an optimizer step, at most; a step holds whole sequences."""
    pass_tokens: Count = 2048
    """Tokens of a forward/backward pass, padding included, at most."""
    optimizer: Literal["muon", "adamw"] = "muon"
    """muon: Muon for the matrices of the layers, AdamW for embeddings and norms."""
    lr: Positive = 4e-3
    """Learning rate of AdamW, after warm-up; a cosine decay follows."""
    muon_lr: Positive = 0.02
    warmup_fraction: Fraction = 0.05
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of matrix products, by autocast over float32 weights; auto is bfloat16."""
    checkpoint_every: Count = 250
    """Optimizer steps."""
    threads: Count = 1
    """CPU threads of torch; part of the result, since they change the rounding of sums."""


class PpoParams(Section):
    """The critic, GAE and clips of PPO."""

    gamma: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Discount per token."""
    gae_lambda: Fraction = 0.95
    """GAE lambda: 1 = Monte Carlo, 0 = one-step TD."""
    clip: Rate = 0.2
    """Clip range of the ratio of new to old probability."""
    value_clip: Positive = 0.2
    """Clip range of the critic's prediction around its prediction at rollout time."""
    value_coef: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the critic's loss in the shared body; 0 trains the value head alone."""
    value_lr: Positive = 3e-3
    """Learning rate of the critic's head."""
    kl_coef: Annotated[float, Field(ge=0)] = 0.0
    """KL penalty in the reward: per nat of log-ratio to the policy at the start."""
    minibatches: Count = 4
    """Minibatches, with one update each, per pass over a rollout batch."""


class RewardParams(Section):
    """A part of the reward of an online method."""

    name: str
    """In metrics."""
    function: str | None = None
    """FILE.py:function, module:function or an entry point of reasonloop.rewards; null: the verified reward."""
    weight: float = 1.0


class TrainParams(Section):
    """One round of training."""

    method: Method = Method.SFT
    variant: Variant = Variant.DAPO
    """The loss of GRPO. Clips have an effect only if ``updates_per_rollout`` is above 1."""
    advantage: str | None = None
    """The group-relative advantage rule of online methods, a name in `advantages.rules.RULES`; null takes
    the rule of ``variant`` (GRPO), leave-one-out (RLOO), or plain rewards (PPO)."""
    lr: Positive = 2e-3
    steps: Count = 600
    batch_size: Count = 64
    """Sequences (SFT), pairs (DPO) or prompts (online methods) per step."""
    micro_batch_size: Count | None = None
    """Sequences, pairs or paths per forward/backward pass; null: as many as fit into 2 GiB of activations on
    a CPU, or half of a GPU's free memory, by an estimate."""
    gradient_checkpointing: bool | None = None
    """Compute activations again in the backward pass, for less memory and about a third more time; null: on
    a GPU without room for eight rows."""
    warmup_fraction: Fraction = 0.05
    group_size: Annotated[int, Field(ge=1)] = 8
    """Paths per prompt in online methods."""
    updates_per_rollout: Count = 1
    """Optimizer steps per rollout batch, each counted in ``steps``. In PPO: epochs over the batch, all
    within one step of ``steps``."""
    rollouts: Literal["in_process", "endpoint", "stored"] = "in_process"
    """Sampler of online methods. in_process: the policy in memory. endpoint: the engine of ``serve``, with
    the policy's LoRA adapter loaded at every step. stored: nothing is drawn, the paths are the round's stored ones
    with their recorded log-probabilities (grpo and rloo): off-policy."""
    max_logprob_gap: Positive = 0.05
    """In nats: a step of grpo or rloo whose sampler gives the drawn tokens log-probabilities that differ by more from the
    trainer's, in the mean, ends the training."""
    entropy_coef: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the bonus for the mean entropy of a token, in nats (online methods)."""
    warm_start_steps: Whole = 800
    """Steps of SFT on the distinct correct stored paths before an online method; 0 skips it."""
    warm_start_batch_size: Count = 64
    warm_start_lr: Positive = 2e-3
    dpo_beta: Positive = 0.1
    checkpoint_every: Count = 50
    control: bool = True
    """Train a control: the base on worked solutions alone, with as much compute as the loop."""
    threads: Count = 1
    """CPU threads of torch; part of the result, since they change the rounding of sums."""
    processes: Count = 1
    """Of a training, on Ray, each with its share of every batch; the result is the same up to rounding."""
    sharding: Literal["none", "full"] = "none"
    """Of weights, gradients and moments over the processes. none: each has all (DDP); full: each has a part (FSDP2)."""
    rewards: tuple[RewardParams, ...] = ()
    """Of online methods; several are standardized within their group each, with these weights (GDPO; grpo and rloo).
    Empty: the verified reward alone."""
    code_digest: str | None = None
    """Of the functions of ``rewards``; it is read from their files."""
    lora: LoraParams = LoraParams()
    ppo: PpoParams = PpoParams()

    @override
    def faults(self) -> Iterator[str]:
        yield from repetition(rewards=[one.name for one in self.rewards])
        if self.rewards and self.method not in ONLINE:
            yield f"rewards; method={self.method.value} has none: set an online method, as method=grpo"
        if len(self.rewards) > 1 and self.method not in _GROUP_RELATIVE:
            yield f"rewards; method={self.method.value} takes one, {len(self.rewards)} are for grpo and rloo"
        needs_group = self.method in _GROUP_RELATIVE or self.advantage is not None
        if needs_group and self.group_size < 2:
            needing = f"advantage={self.advantage}" if self.advantage else self.method.value.upper()
            yield f"group_size={self.group_size}; {needing} needs at least 2"
        if self.advantage is not None and self.method not in ONLINE:
            yield (
                f"advantage={self.advantage}; method={self.method.value} has no advantages: set an "
                "online method, as method=grpo, or advantage=null"
            )
        if self.rollouts == "endpoint" and not (self.method in ONLINE and self.lora.enabled):
            yield (
                "rollouts=endpoint; the engine gets each step's weights as an adapter, so it needs "
                "an online method, as method=grpo, and lora.enabled=true"
            )
        if self.rollouts == "stored" and self.method not in _GROUP_RELATIVE:
            yield f"rollouts=stored; method={self.method.value} does not learn from groups of stored paths, grpo does"
        yield from self._process_faults()
        yield from self._batch_faults()

    def _process_faults(self) -> Iterator[str]:
        draws = self.method in ONLINE and self.rollouts == "in_process"
        if self.sharding == "full" and draws:
            yield (
                "sharding=full; no process has all weights to draw with: set rollouts=endpoint with lora.enabled=true"
            )
        if self.batch_size % self.processes:
            yield f"processes={self.processes}; does not divide a batch of {self.batch_size}"

    def _batch_faults(self) -> Iterator[str]:
        paths = self.batch_size * self.group_size
        if self.method is Method.PPO and self.ppo.minibatches > paths:
            yield f"ppo.minibatches={self.ppo.minibatches}; a draw has {paths} paths"
        online = self.method in ONLINE
        wholes = [self.batch_size * (self.group_size if online else 1)]
        # The control of the other methods takes the schedule of the warm start.
        if (online and self.warm_start_steps) or (self.control and self.method is not Method.SFT):
            wholes.append(self.warm_start_batch_size)
        for whole in wholes:
            micro = min(self.micro_batch_size or whole, whole)
            if whole % micro:
                yield f"micro_batch_size={micro} does not divide a batch of {whole}"
