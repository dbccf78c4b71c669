"""Parallel latent branches (PRR): model, loss, data, training, evaluation."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pipeline_lib.params.sections import Count, Fraction, Positive, Rate, Section, Whole


class TrmParams(Section):
    """TRM's recursion and its adaptive number of supervision steps; only read with ``kind: trm``."""

    high_cycles: Count = 3
    """Per supervision step; all but the last run without gradients."""
    low_cycles: Count = 6
    """Passes over the low state in each high cycle; one over the high state follows them."""
    max_steps: Count = 16
    """Supervision steps after which a row halts in any case, and of every prediction."""
    exploration: Fraction = 0.1
    """Share of training steps at which a row must go on up to a random step."""


class LatentModelParams(Section):
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
    """Positions before the sequence; the first holds the puzzle embedding."""
    num_branches: Count = 8
    steps: Count = 8
    """Passes through the blocks of each branch."""
    grad_steps: Count = 2
    """The last so many of them are in the gradient."""
    branch_vectors: bool = True
    """Each branch adds a learned vector of its own at every step, not only at the start."""
    start_noise: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of the noise on the starting latents, in training only."""
    scorer_reads: Literal["all", "first"] = "all"
    """All positions, by the mean of what it makes of each, or the first one alone."""
    scorer_certainty: bool = True
    """The scorer is also told how sure the answer's tokens are."""
    scorer_checks: bool = False
    """... and sees question and answer side by side, through a block of its own: one layer more for
    each branch."""
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


class LatentLossParams(Section):
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
    restart_every: Whole = 100
    """Steps after which an idle branch may begin again beside the one with too much to do; 0: never."""
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


class LatentPreset(Section):
    """A model with the loss that belongs to it."""

    model: LatentModelParams = LatentModelParams()
    loss: LatentLossParams = LatentLossParams()


LATENT_PRESETS = {
    "ours": LatentPreset(),
    "brief": LatentPreset(
        model=LatentModelParams(
            branch_vectors=False,
            start_noise=0.1,
            alpha=0.1,
            scorer_reads="first",
            scorer_certainty=False,
            scorer_checks=False,
        ),
        loss=LatentLossParams(
            best_of="soft_min",
            floor=0,
            tau_start=0.1,
            tau_end=0.1,
            restart_every=0,
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


MadeTaskName = Literal["sudoku4", "sudoku4-two", "sudoku6", "sudoku6-two", "ambiguous"]


class LatentDataParams(Section):
    """What a latent model learns: a task that is made here, or a folder in TRM's format."""

    task: Literal[MadeTaskName, "folder"] = "sudoku4-two"
    folder: str | None = None
    """Of ``task: folder``, as `reasonloop prr build-arc`, build-sudoku and build-maze write it."""
    train_puzzles: Count = 2048
    """Of a made task; a folder is taken whole."""
    versions: Count = 8
    """Of each made puzzle, as a group: the same Sudoku with digits, rows and columns exchanged."""
    test_examples: Count = 1024

    @model_validator(mode="after")
    def _folder(self) -> "LatentDataParams":
        if (self.task == "folder") != (self.folder is not None):
            raise ValueError(
                f"task={self.task} with folder={self.folder}; task=folder and a folder go together"
            )
        return self


class LatentTrainParams(Section):
    """How a latent model is optimized."""

    steps: Count = 1000
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
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Share of the average that each step keeps: .99 for about 1,000 steps, .999 for long runs."""
    checkpoint_every: Count = 250
    log_every: Count = 10
    threads: Count = 1
    """CPU threads of torch; part of the result, since sums round differently."""


class LatentEvaluateParams(Section):
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


class LatentParams(Section):
    """Parallel latent branches (PRR), from data to evaluation."""

    data: LatentDataParams = LatentDataParams()
    model: LatentModelParams = LatentModelParams(
        width=48, heads=2, hidden_multiple=32, mixer="mlp", prefix_tokens=1, num_branches=4
    )
    loss: LatentLossParams = LatentLossParams()
    train: LatentTrainParams = LatentTrainParams()
    evaluate: LatentEvaluateParams = LatentEvaluateParams()
