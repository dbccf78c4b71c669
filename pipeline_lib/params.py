"""All params as frozen pydantic models, one section a stage; `params_file` reads them.

What a stage computes depends on its own section, on ``seed`` and on its inputs. ``execution`` says
where it runs and never changes a result, so no stage of DVC depends on it.
"""

import os
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Fraction = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CountdownParams(_Section):
    """The generator of Countdown problems. Numbers are uniform in [low, high], with repetition."""

    num_numbers: Annotated[int, Field(ge=2, le=6)] = 3
    low: Count = 1
    high: Count = 20
    target_low: Count = 10
    target_high: Count = 100

    @model_validator(mode="after")
    def _ranges(self) -> "CountdownParams":
        if self.low > self.high:
            raise ValueError(f"low={self.low} is above high={self.high}")
        if self.target_low > self.target_high:
            raise ValueError(
                f"target_low={self.target_low} is above target_high={self.target_high}"
            )
        return self


class PrepareParams(_Section):
    """Which problems, and how many of each split."""

    dataset: Literal[
        "countdown",
        "gsm8k",
        "math",
        "aime",
        "hmmt",
        "humaneval",
        "mbpp",
        "arc",
        "concept-arc",
    ] = "countdown"
    folder: str | None = None
    """A folder in the data set's original format, or a hub id; not used by the generator."""
    train_problems: Count = 5000
    test_problems: Count = 400
    bootstrap_problems: Whole = 5000
    countdown: CountdownParams = CountdownParams()


class BootstrapParams(_Section):
    """The base policy: made from scratch, or taken from ``model``."""

    model: str | None = None
    """A Hugging Face folder or hub id; null makes a small Llama by SFT on solver solutions."""
    hidden_size: Count = 128
    num_layers: Count = 4
    num_heads: Count = 4
    steps: Count = 700
    batch_size: Count = 64
    lr: Positive = 2e-3
    warmup_fraction: Fraction = 0.05
    checkpoint_every: Count = 100
    threads: Count = 1
    """CPU threads of torch; part of the result, since sums round differently."""

    @model_validator(mode="after")
    def _heads(self) -> "BootstrapParams":
        # Rotary positions need an even number of channels a head.
        if self.hidden_size % (2 * self.num_heads):
            raise ValueError(
                f"hidden_size={self.hidden_size} is no multiple of 2 x num_heads={self.num_heads}"
            )
        return self


class SampleParams(_Section):
    """How paths are drawn."""

    num_paths: Count = 10
    temperature: Annotated[float, Field(ge=0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_new_tokens: Count = 32
    shard_size: Count = 128
    """Problems a shard: the unit of work, retry and resume."""
    batch_size: Count = 512
    """Paths that are decoded together."""


class MathLimits(_Section):
    """Deadlines and memory of the processes that judge math answers."""

    soft_timeout_s: Positive = 2.0
    """CPU seconds of one comparison."""
    hard_timeout_s: Positive = 3.0
    """CPU seconds after which its process is killed; by the clock, ten times as many."""
    memory_mb: Count = 1024


class CodeLimits(_Section):
    """Limits of one sandboxed program."""

    timeout_s: Positive = 30.0
    """Seconds by the clock, of a program with its tests. Beside four others that compute on the same
    core a program gets a fifth of them; reference solutions take 0.02 s, the slowest of 1,138 3 s."""
    memory_mb: Count = 256
    tier: Literal["auto", "namespace", "landlock", "docker"] = "auto"


class VerifyParams(_Section):
    """How paths are judged."""

    math: MathLimits = MathLimits()
    code: CodeLimits = CodeLimits()


class BuildParams(_Section):
    """Which judged paths become training data."""

    min_pass_rate: Fraction = 0.0
    """DPO and GRPO keep the problems whose pass rate lies strictly above this ..."""
    max_pass_rate: Fraction = 0.6
    """... and strictly below this."""
    max_pairs_per_problem: Count = 4
    max_length_ratio: Annotated[float, Field(ge=1)] = 2.0
    """A pair's longer text has at most this many times the characters of its shorter one."""
    correct_paths: Literal["all", "shortest"] = "all"

    @model_validator(mode="after")
    def _bounds(self) -> "BuildParams":
        if self.min_pass_rate >= self.max_pass_rate:
            raise ValueError(
                f"min_pass_rate={self.min_pass_rate} is not below max_pass_rate={self.max_pass_rate}"
            )
        return self


class Method(StrEnum):
    """How verified paths become a better policy."""

    SFT = "sft"
    DPO = "dpo"
    GRPO = "grpo"
    RLOO = "rloo"
    PPO = "ppo"


ONLINE = frozenset({Method.GRPO, Method.RLOO, Method.PPO})
"""Methods that draw their own paths while they train, ``group_size`` of them a prompt."""
_COMPARED = frozenset({Method.GRPO, Method.RLOO})
"""Of these, the ones that compare the paths of a prompt with each other."""


class Variant(StrEnum):
    """The loss of GRPO; what each is made of stands in `training.grpo_variants`."""

    DAPO = "dapo"
    GRPO = "grpo"
    DR_GRPO = "dr_grpo"
    GSPO = "gspo"
    CISPO = "cispo"


class LoraParams(_Section):
    """Adapters on all linear layers instead of full fine-tuning."""

    enabled: bool = False
    rank: Count = 16
    alpha: Count = 32
    quantize: Literal["none", "4bit"] = "none"
    """What the frozen base is held in while adapters train: QLoRA's NF4 needs CUDA and bitsandbytes."""

    @model_validator(mode="after")
    def _quantized(self) -> "LoraParams":
        if self.quantize != "none" and not self.enabled:
            raise ValueError(
                f"quantize={self.quantize}; only the base under adapters is quantized, so it needs "
                "enabled=true"
            )
        return self


class PpoParams(_Section):
    """The critic, GAE and clips of PPO."""

    gamma: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Discount of a reward by each token before it."""
    gae_lambda: Fraction = 0.95
    """1 takes what a path came to, 0 what the critic says of its next token."""
    clip: Rate = 0.2
    """How far the ratio of new to old probability may move from 1 and still be rewarded."""
    value_clip: Positive = 0.2
    """How far a value may move on the paths of one draw and still be rewarded."""
    value_coef: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the critic's loss in the body that it shares with the policy; 0 trains its head alone."""
    value_lr: Positive = 3e-3
    """Rate of the critic's head."""
    kl_coef: Annotated[float, Field(ge=0)] = 0.0
    """What a nat of log-probability above the policy at the start costs, in units of reward."""
    minibatches: Count = 4
    """Updates of the weights in one pass over the paths of a draw."""


class TrainParams(_Section):
    """One round of training."""

    method: Method = Method.GRPO
    variant: Variant = Variant.DAPO
    """The loss of GRPO. Variants differ in their clips only where ``updates_per_rollout`` is above 1."""
    lr: Positive = 5e-5
    steps: Count = 30
    batch_size: Count = 64
    """Sequences (SFT), pairs (DPO) or prompts (online methods) a step."""
    micro_batch_size: Count | None = None
    """Sequences, pairs or paths that are in memory at once; null takes the whole batch."""
    warmup_fraction: Fraction = 0.05
    group_size: Annotated[int, Field(ge=1)] = 8
    """Paths a prompt in online methods."""
    updates_per_rollout: Count = 1
    """Optimizer steps on the paths of one draw in online methods; above 1 a draw takes as many of ``steps``.
    In PPO passes over these paths, all of them within one of ``steps``."""
    rollouts: Literal["in_process", "endpoint"] = "in_process"
    """What draws the paths of online methods: the policy as it is trained, or the engine of ``serve`` with its adapter."""
    entropy_coef: Annotated[float, Field(ge=0)] = 0.0
    warm_start_steps: Whole = 800
    """Steps of SFT on the distinct correct stored paths before online methods; 0 skips it."""
    warm_start_batch_size: Count = 64
    warm_start_lr: Positive = 2e-3
    dpo_beta: Positive = 0.1
    checkpoint_every: Count = 25
    threads: Count = 1
    """CPU threads of torch; part of the result, since sums round differently."""
    lora: LoraParams = LoraParams()
    ppo: PpoParams = PpoParams()

    @model_validator(mode="after")
    def _group(self) -> "TrainParams":
        if self.method in _COMPARED and self.group_size < 2:
            raise ValueError(
                f"group_size={self.group_size}; {self.method.value.upper()} needs at least 2"
            )
        return self

    @model_validator(mode="after")
    def _entropy(self) -> "TrainParams":
        if self.method is Method.RLOO and self.entropy_coef:
            raise ValueError(
                f"entropy_coef={self.entropy_coef}; the loss of RLOO has no entropy term, set 0"
            )
        return self

    @model_validator(mode="after")
    def _adapter(self) -> "TrainParams":
        if self.rollouts == "endpoint" and not (self.method in ONLINE and self.lora.enabled):
            raise ValueError(
                "rollouts=endpoint; the engine gets each step's weights as an adapter, so it needs "
                "an online method, as method=grpo, and lora.enabled=true"
            )
        return self

    @model_validator(mode="after")
    def _minibatches(self) -> "TrainParams":
        paths = self.batch_size * self.group_size
        if self.method is Method.PPO and self.ppo.minibatches > paths:
            raise ValueError(f"ppo.minibatches={self.ppo.minibatches}; a draw has {paths} paths")
        return self

    @model_validator(mode="after")
    def _micro_batches(self) -> "TrainParams":
        online = self.method in ONLINE
        wholes = [self.batch_size * (self.group_size if online else 1)]
        wholes += [self.warm_start_batch_size] if online and self.warm_start_steps else []
        for whole in wholes:
            micro = min(self.micro_batch_size or whole, whole)
            if whole % micro:
                raise ValueError(f"micro_batch_size={micro} does not divide a batch of {whole}")
        return self


class EvaluateParams(_Section):
    """Base against trained on the held-out problems."""

    num_paths: Count = 16
    ks: tuple[Count, ...] = (1, 4, 8)
    resamples: Count = 10000
    """Bootstrap resamples over problems."""
    level: Rate = 0.95

    @model_validator(mode="after")
    def _enough_paths(self) -> "EvaluateParams":
        if 1 not in self.ks:
            raise ValueError(f"ks={list(self.ks)}; it must hold 1, pass@1 is the headline")
        if self.num_paths < 2 * max(self.ks):
            raise ValueError(
                f"num_paths={self.num_paths}; pass@{max(self.ks)} needs at least {2 * max(self.ks)}"
            )
        return self


class Strategy(StrEnum):
    """A way to spend compute on one problem at test time."""

    SINGLE = "single"
    ORACLE = "oracle"
    """Best of N by the verifier: an upper bound, since only the gold can choose like this."""
    LIKELIHOOD = "likelihood"
    MEAN_LOGPROB = "mean-logprob"
    SELF_CERTAINTY = "self-certainty"
    MAJORITY = "majority"
    LIKELIHOOD_VOTE = "likelihood-vote"
    CERTAINTY_VOTE = "self-certainty-vote"
    BORDA_VOTE = "borda-vote"
    BEAM = "beam"
    TREE = "tree"


RESCORING = frozenset({Strategy.SELF_CERTAINTY, Strategy.CERTAINTY_VOTE, Strategy.BORDA_VOTE})
"""Strategies for which the policy reads every path once more."""


class BeamParams(_Section):
    """Beam search over steps: of N continuations the best N / ``expansion`` go on."""

    expansion: Annotated[int, Field(ge=2)] = 4
    """Continuations of each branch that is kept; a budget below it is no beam, and is left out."""
    value: Literal["likelihood", "mean-logprob", "self-certainty"] = "mean-logprob"
    """What a partial path is worth; no label is part of it."""


class TreeParams(_Section):
    """Monte Carlo tree search over steps, with progressive widening."""

    exploration: Annotated[float, Field(ge=0)] = 0.3
    """The constant c of UCT; values are in [0, 1]."""
    widening: Positive = 1.0
    """A node visited n times may have had ceil(widening * n^widening_power) completions ..."""
    widening_power: Fraction = 0.9
    """... before one of its children is gone on from."""
    value: Literal["agreement", "mean-logprob", "self-certainty"] = "agreement"
    """What a rollout is worth: the share of rollouts with its answer, or how sure the policy was."""


class ComputeParams(_Section):
    """Test-time compute: accuracy against tokens and against the critical path."""

    strategies: Annotated[tuple[Strategy, ...], Field(min_length=1)] = tuple(Strategy)
    budgets: Annotated[tuple[Count, ...], Field(min_length=1)] = (1, 2, 4, 8, 16, 32)
    """Points of each curve: paths of a problem, branches of a beam, rollouts of a tree."""
    max_subsets: Count = 500
    """A mean over subsets without a formula is exact up to so many of them, else over so many."""
    borda_power: Annotated[float, Field(ge=0)] = 0.5
    """Rank r of N gives (N - r + 1)^power votes."""
    step: Annotated[str, Field(min_length=1)] = "\n"
    """What ends a step of beam and tree search."""
    max_steps: Count = 16
    """A branch that has so many is drawn to its end at once."""
    beam: BeamParams = BeamParams()
    tree: TreeParams = TreeParams()

    @property
    def beam_budgets(self) -> list[int]:
        """The budgets that are a multiple of the beam's expansion."""
        return sorted(budget for budget in self.budgets if budget % self.beam.expansion == 0)

    @model_validator(mode="after")
    def _distinct(self) -> "ComputeParams":
        for name, values in (("strategies", self.strategies), ("budgets", self.budgets)):
            if len(set(values)) < len(values):
                raise ValueError(f"{name}={list(map(str, values))}; each may stand once")
        return self


class ServeParams(_Section):
    """The rollout engine that draws paths, what it may cost, and where it answers."""

    engine: Literal["embedded", "vllm", "sglang", "url"] = "embedded"
    """In this process; a server that is started and stopped with the run; or one that runs."""
    url: str | None = None
    """Address of a running OpenAI-compatible server, version included (``http://host:8000/v1``)."""
    model: str | None = None
    """The model's name at ``url``; null takes the only one that is served there."""
    tokenizer: str | None = None
    """Hugging Face folder or id with the tokenizer of the model at ``url``, which then renders the
    prompts here; null leaves that to the server, by its chat route."""
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the variable that holds the key. The key itself stands in no file of ours."""
    port: Annotated[int, Field(ge=1, le=65535)] = 8300
    """The first port that is tried on 127.0.0.1; one in use gives the next free one."""
    environment: str = ".venv-serve"
    """Folder of the virtual environment in which the engine is installed."""
    options: tuple[str, ...] = ()
    """Further options of the engine's own command line."""
    concurrency: Count = 64
    """Requests in flight at once; each asks for all paths of a problem where the engine can."""
    request_timeout_s: Positive = 600.0
    start_timeout_s: Positive = 300.0
    """From the start of an engine, or from its death, until it must answer."""
    hang_timeout_s: Positive = 30.0
    """An engine that answers nothing for so long is stopped and started again."""
    price_per_million_prompt_tokens: Annotated[float, Field(ge=0)] = 0.0
    price_per_million_completion_tokens: Annotated[float, Field(ge=0)] = 0.0
    """In any currency; ``budget_money`` and the report's cost are in the same."""
    budget_tokens: Count | None = None
    """Prompt and completion tokens after which the run stops; null sets no limit."""
    budget_money: Positive | None = None

    @model_validator(mode="after")
    def _address(self) -> "ServeParams":
        if self.engine == "url" and not self.url:
            raise ValueError("url=null; engine=url needs the address, as in http://host:8000/v1")
        return self

    @model_validator(mode="after")
    def _prices(self) -> "ServeParams":
        priced = self.price_per_million_prompt_tokens or self.price_per_million_completion_tokens
        if self.budget_money is not None and not priced:
            raise ValueError(
                f"budget_money={self.budget_money} with both prices 0; set the prices, or budget_tokens"
            )
        return self


class ReportParams(_Section):
    """What the report shows."""

    num_examples: Whole = 40
    """Problems in the browser of paths."""


class TrmParams(_Section):
    """TRM's recursion and its adaptive number of supervision steps; only read with ``kind: trm``."""

    high_cycles: Count = 3
    """Per supervision step; all but the last run without gradients."""
    low_cycles: Count = 6
    """Passes over the low state in each high cycle; one over the high state follows them."""
    max_steps: Count = 16
    """Supervision steps after which a row halts in any case, and of every prediction."""
    exploration: Fraction = 0.1
    """Share of training steps at which a row must go on up to a random step."""


class LatentModelParams(_Section):
    """A tiny recursive network: K branches side by side (PRR), or one as in TRM."""

    kind: Literal["prr", "trm"] = "prr"
    width: Count = 256
    layers: Count = 2
    heads: Count = 4
    expansion: Positive = 4.0
    """Hidden width of the feed-forward part, as that of an ungated one with as many parameters."""
    hidden_multiple: Count = 256
    """That hidden width is rounded up to a multiple of this."""
    mixer: Literal["attention", "mlp"] = "attention"
    """What mixes the positions of a sequence."""
    prefix_tokens: Count = 16
    """Positions before the sequence; the first holds the puzzle embedding and is read by the scorer."""
    num_branches: Count = 8
    steps: Count = 8
    """Passes through the blocks of each branch."""
    grad_steps: Count = 2
    """The last so many of them are in the gradient."""
    branch_vectors: bool = True
    """Each branch adds a learned vector of its own at every step, not only at the start."""
    start_noise: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of the noise on the starting latents, in training only."""
    alpha: Fraction = 0.0
    """How far a communication moves a branch to the mean of all; 0 keeps them independent."""
    comm_interval: Count = 2
    """Steps between two communications; there is none after the last step."""
    comm_temperature: Positive = 1.0
    """Divides the scores that weigh the branches in that mean."""
    comm_gradient: bool = False
    """Start the gradient one step before the last communication where it would start behind it."""
    trm: TrmParams = TrmParams()
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Format of latents and matrix products; auto is bfloat16 on CUDA and float32 elsewhere."""
    compiled: bool = False
    """Compile the blocks with torch.compile: slower to start, faster on a GPU."""

    @model_validator(mode="after")
    def _heads(self) -> "LatentModelParams":
        # Rotary positions turn pairs of channels.
        if self.mixer == "attention" and self.width % (2 * self.heads):
            raise ValueError(f"width={self.width} is no multiple of 2 x heads={self.heads}")
        return self

    @model_validator(mode="after")
    def _gradient(self) -> "LatentModelParams":
        if self.grad_steps > self.steps:
            raise ValueError(f"grad_steps={self.grad_steps} is above steps={self.steps}")
        return self

    @model_validator(mode="after")
    def _one_branch(self) -> "LatentModelParams":
        if self.kind == "trm" and self.num_branches != 1:
            raise ValueError(f"num_branches={self.num_branches}; kind=trm has one branch")
        return self


class LatentLossParams(_Section):
    """What K answers to one example are taught; TRM mode has its own fixed loss."""

    best_of: Literal["responsibility", "soft_min"] = "responsibility"
    """Weighted mean of the branches' losses with fixed weights, or the soft minimum itself."""
    floor: Rate | Literal[0] = 0.05
    """Share of the weight that all branches get alike, so that none starves (responsibility)."""
    tau_start: Positive = 1.0
    """Temperature of the weights in the beginning."""
    tau_end: Positive | None = None
    """... and after ``tau_fraction`` of training; null takes 1 / labels of the example."""
    tau_fraction: Annotated[float, Field(gt=0, le=1)] = 0.6
    scorer: Annotated[float, Field(ge=0)] = 0.5
    """Weight of the scorer's loss."""
    ranking: Annotated[float, Field(ge=0)] = 0.5
    """Weight, within it, of ranking the branches beside saying whether each is right."""
    ranking_min_tau: Positive = 0.02
    detach_scorer: bool = True
    """The scorer learns to read the latents, and the latents do not learn to be read."""
    diversity: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the term that keeps the branches' latents apart."""
    diversity_margin: Annotated[float, Field(ge=-1, le=1)] = 0.5
    """Cosine of two branches up to which it is zero."""

    @model_validator(mode="after")
    def _floor(self) -> "LatentLossParams":
        if self.best_of == "soft_min" and self.floor:
            raise ValueError(f"floor={self.floor}; best_of=soft_min has no weights to put it under")
        return self


class LatentPreset(_Section):
    """A model with the loss that belongs to it."""

    model: LatentModelParams = LatentModelParams()
    loss: LatentLossParams = LatentLossParams()


LATENT_PRESETS = {
    "ours": LatentPreset(),
    "brief": LatentPreset(
        model=LatentModelParams(branch_vectors=False, start_noise=0.1, alpha=0.1),
        loss=LatentLossParams(
            best_of="soft_min",
            floor=0,
            tau_start=0.1,
            tau_end=0.1,
            ranking=1.0,
            detach_scorer=False,
            diversity=0.1,
        ),
    ),
    "trm": LatentPreset(
        model=LatentModelParams(kind="trm", width=512, heads=8, num_branches=1),
    ),
    "trm-mlp": LatentPreset(
        model=LatentModelParams(kind="trm", width=512, heads=8, num_branches=1, mixer="mlp"),
    ),
}
"""PRR as we found it to work and as it was first described; TRM at its published sizes."""


class LatentDataParams(_Section):
    """What a latent model learns: a task that is made here, or a folder in TRM's format."""

    task: Literal["sudoku4", "sudoku4-two", "sudoku6", "sudoku6-two", "ambiguous", "folder"] = (
        "ambiguous"
    )
    folder: str | None = None
    """Of ``task: folder``, as `reasonloop prr build-arc`, build-sudoku and build-maze write it."""
    train_puzzles: Count = 8192
    """Of a made task; a folder is taken whole."""
    versions: Count = 1
    """Of each made puzzle, as a group: the same Sudoku with digits, rows and columns exchanged."""
    test_examples: Count = 1024

    @model_validator(mode="after")
    def _folder(self) -> "LatentDataParams":
        if (self.task == "folder") != (self.folder is not None):
            raise ValueError(
                f"task={self.task} with folder={self.folder}; task=folder and a folder go together"
            )
        return self


class LatentTrainParams(_Section):
    """How a latent model is optimized."""

    steps: Count = 500
    batch_size: Count = 16
    """Examples a step, over all devices."""
    optimizer: Literal["adam-atan2", "adamw"] = "adam-atan2"
    lr: Positive = 5e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    puzzle_lr: Positive = 1e-2
    """Of the puzzle vectors, which follow the sign of their gradient."""
    puzzle_weight_decay: Annotated[float, Field(ge=0)] = 0.1
    warmup_steps: Whole = 20
    """Over these the rates rise from 0; then they stay."""
    ema: Fraction = 0.99
    """Share of the average that each step keeps: .99 for about 1,000 steps, .999 for long runs."""
    checkpoint_every: Count = 125
    log_every: Count = 10
    threads: Count = 1
    """CPU threads of torch; part of the result, since sums round differently."""


class LatentEvaluateParams(_Section):
    """How the answers of a latent model are drawn and picked."""

    batch_size: Count = 128
    steps: Count | None = None
    """Recursion steps instead of the trained number."""
    rollouts: Count = 1
    """Runs with ``noise``, each with all branches."""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of what is added to the latents at every step."""
    voters: Literal["picked", "all"] = "all"
    """Whose answers go into an ARC submission: each version's surest one, or those of all branches."""
    pictures: Whole = 8
    """So many test examples are drawn, with the answers of all branches."""

    @model_validator(mode="after")
    def _noise(self) -> "LatentEvaluateParams":
        if self.rollouts > 1 and not self.noise:
            raise ValueError(
                f"rollouts={self.rollouts} with noise=0 would all be alike; set noise, as 0.1"
            )
        return self


class LatentParams(_Section):
    """Parallel latent branches (PRR), from data to evaluation."""

    data: LatentDataParams = LatentDataParams()
    model: LatentModelParams = LatentModelParams(
        width=48, heads=2, hidden_multiple=32, mixer="mlp", prefix_tokens=1, num_branches=4
    )
    loss: LatentLossParams = LatentLossParams()
    train: LatentTrainParams = LatentTrainParams()
    evaluate: LatentEvaluateParams = LatentEvaluateParams()


class ExecutionParams(_Section):
    """Where the work runs. Never part of a result."""

    runner: Literal["ray", "thread"] = "ray"
    workers: Count = 2
    report_to: tuple[str, ...] = ()
    """Programs that show a training while it runs: dvclive, tensorboard, wandb, trackio and others."""


class Params(_Section):
    """All of params.yaml."""

    seed: Whole = 7
    rounds: Count = 1
    prepare: PrepareParams = PrepareParams()
    bootstrap: BootstrapParams = BootstrapParams()
    sample: SampleParams = SampleParams()
    verify: VerifyParams = VerifyParams()
    build: BuildParams = BuildParams()
    train: TrainParams = TrainParams()
    evaluate: EvaluateParams = EvaluateParams()
    compute: ComputeParams = ComputeParams()
    report: ReportParams = ReportParams()
    serve: ServeParams = ServeParams()
    latent: LatentParams = LatentParams()
    execution: ExecutionParams = ExecutionParams()


def environment(name: str) -> str | None:
    """One variable of the environment; the only place where the library reads it."""
    return os.environ.get(name)
