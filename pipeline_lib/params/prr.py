"""Params of parallel latent branches (PRR): model, loss, data, training, evaluation."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import override

from pipeline_lib.params.sections import Count, Fraction, Positive, Rate, Section, Whole


class TrmParams(Section):
    """Recursion of TRM and its adaptive number of supervision steps; used with ``kind: trm`` alone."""

    high_cycles: Count = 3
    """High cycles per supervision step; only the last has gradients."""
    low_cycles: Count = 6
    """Updates of the low state per high cycle; one update of the high state follows."""
    max_steps: Count = 16
    """Most supervision steps of a training example; predictions always take this number."""
    exploration: Fraction = 0.1
    """Probability, per supervision step, that an example must reach a random step before it may halt."""


class PrrModelParams(Section):
    """A small recursive network: K parallel branches (PRR), or one branch (TRM)."""

    kind: Literal["prr", "trm"] = "prr"
    width: Count = 256
    layers: Count = 2
    heads: Count = 4
    expansion: Positive = 4.0
    """Expansion of an ungated feed-forward layer; the gated one takes two thirds, for equal parameters."""
    hidden_multiple: Count = 256
    """The hidden width of the feed-forward part is rounded up to a multiple of this."""
    mixer: Literal["attention", "mlp"] = "attention"
    """Layer that mixes the positions of a sequence."""
    prefix_tokens: Count = 16
    """Positions before the sequence; the first holds the puzzle embedding."""
    num_branches: Count = 8
    steps: Count = 8
    """Passes through the blocks of each branch."""
    grad_steps: Count = 2
    """Last steps that are backpropagated through."""
    branch_vectors: bool = True
    """Each branch adds its learned vector at every step, not only at the start."""
    start_noise: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of the noise on the initial latents, in training only."""
    scorer_reads: Literal["all", "first"] = "all"
    """Positions whose latents are scored: the mean of the scores of all, or the first alone."""
    scorer_certainty: bool = True
    """The confidences of the answer's tokens are an input of the scorer."""
    scorer_checks: bool = False
    """The scorer also reads question and answer through a block of its own: one more layer per branch."""
    alpha: Fraction = 0.0
    """Step of a branch towards the mean of all at each communication; 0: independent branches."""
    comm_interval: Count = 2
    """Steps between communications; there is none after the last step."""
    comm_temperature: Positive = 1.0
    """Temperature of the softmax over scores that weighs the branches in that mean."""
    comm_gradient: bool = False
    """Start backpropagation no later than one step before the last communication."""
    trm: TrmParams = TrmParams()
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Dtype of latents and matrix products; auto is bfloat16 on CUDA and float32 elsewhere."""
    compiled: bool = False
    """Compile the blocks with torch.compile: slower to start, faster on a GPU."""

    @override
    def faults(self) -> Iterator[str]:
        # Rotary embeddings rotate pairs of channels.
        if self.mixer == "attention" and self.width % (2 * self.heads):
            yield f"width={self.width} is not a multiple of 2 x heads={self.heads}"
        if self.grad_steps > self.steps:
            yield f"grad_steps={self.grad_steps} is above steps={self.steps}"
        if self.kind == "trm" and self.num_branches != 1:
            yield f"num_branches={self.num_branches}; kind=trm has one branch"


class PrrLossParams(Section):
    """Loss of the K answers to one example; TRM has its own fixed loss."""

    best_of: Literal["responsibility", "soft_min"] = "responsibility"
    """Mean of the branches' losses weighted by detached responsibilities, or their soft minimum."""
    floor: Rate | Literal[0] = 0.05
    """Share of the weight that is spread evenly over the branches (best_of=responsibility)."""
    tau_start: Positive = 1.0
    """Temperature of the weights at the start."""
    tau_end: Positive | None = None
    """Temperature after ``tau_fraction`` of training; null: 1 / number of labels of the example."""
    tau_fraction: Annotated[float, Field(gt=0, le=1)] = 0.6
    restart_every: Whole = 100
    """Steps between reinitialisations of unused branches next to overloaded ones; 0: never."""
    scorer: Annotated[float, Field(ge=0)] = 0.5
    """Weight of the scorer's loss."""
    correctness: Annotated[float, Field(ge=0)] = 1.0
    """Weight, within the scorer's loss, of predicting whether a branch is right; 0: the cross-entropy over the branches
    (ranking) alone, whose scores compare the branches of one example and are no probabilities."""
    ranking: Annotated[float, Field(ge=0)] = 0.5
    """Weight of that cross-entropy, within the scorer's loss."""
    ranking_target: Literal["soft", "best"] = "soft"
    """Target of that cross-entropy: the softmax of the negative losses over tau, or the branch with the lowest loss."""
    ranking_min_tau: Positive = 0.02
    detach_scorer: bool = True
    """Detach the latents from the scorer's loss."""
    diversity: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the penalty on similar latents of two branches."""
    diversity_margin: Annotated[float, Field(ge=-1, le=1)] = 0.5
    """Cosine similarity up to which that penalty is zero."""

    @override
    def faults(self) -> Iterator[str]:
        if self.best_of == "soft_min" and self.floor:
            yield f"floor={self.floor}; best_of=soft_min has no weights, set floor=0"


SyntheticTaskName = Literal["sudoku4", "sudoku4-two", "sudoku6", "sudoku6-two", "ambiguous"]


class PrrDataParams(Section):
    """Data of a latent model: a synthetic task, or a folder in TRM's format."""

    task: Literal[SyntheticTaskName, "folder"] = "sudoku4-two"
    folder: str | tuple[str, ...] | None = None
    """Folder of ``task: folder``, as `reasonloop prr build-arc`, build-sudoku and build-maze write it; or several, which
    the stage prr-data joins."""
    train_puzzles: Count = 2048
    """Training puzzles of a synthetic task; a folder is used whole."""
    versions: Count = 8
    """Versions of each synthetic Sudoku, as a group: digits, rows and columns are permuted."""
    test_examples: Count = 1024

    @override
    def faults(self) -> Iterator[str]:
        if (self.task == "folder") != bool(self.folder):
            yield (
                f"task={self.task} with folder={self.folder}; task=folder and a folder go together"
            )


class PrrTrainParams(Section):
    """Optimization of a latent model."""

    steps: Count = 1000
    batch_size: Count = 16
    """Examples per step, over all devices."""
    optimizer: Literal["adam-atan2", "adamw"] = "adam-atan2"
    lr: Positive = 5e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    puzzle_lr: Positive = 1e-2
    """Learning rate of the puzzle embeddings, which are trained by sign SGD."""
    puzzle_weight_decay: Annotated[float, Field(ge=0)] = 0.1
    warmup_steps: Whole = 20
    """Steps of linear warmup; the learning rates are constant afterwards."""
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Decay of the weight average: .99 for about 1,000 steps, .999 for long runs."""
    checkpoint_every: Count = 250
    log_every: Count = 10
    evaluate_every: Whole = 250
    """Steps between evaluations of the averaged weights on a sample of the test split, for the log; 0: never."""
    evaluate_examples: Count = 128
    threads: Count = 1
    """CPU threads of torch; part of the result, since they change the rounding of sums."""
    processes: Count = 1
    """Processes of `reasonloop prr train`, one per GPU, that share each batch."""


class PrrEvaluateParams(Section):
    """Prediction and selection of a latent model's answers."""

    batch_size: Count = 128
    steps: Count | None = None
    """Recursion steps; null: as in training."""
    rollouts: Count = 1
    """Forward passes with ``noise``, each with all branches."""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of the noise that is added to the latents at every step."""
    voters: Literal["all", "scorer", "confidence"] = "all"
    """Votes for an ARC submission: the answers of all branches, or of each version the answer with the highest score or
    confidence."""
    pictures: Whole = 8
    """Test examples that are plotted with the answers of all branches."""

    @override
    def faults(self) -> Iterator[str]:
        if self.rollouts > 1 and not self.noise:
            yield (
                f"rollouts={self.rollouts} with noise=0 would give equal answers; set noise, as 0.1"
            )


class PrrParams(Section):
    """Parallel latent branches (PRR), from data to evaluation."""

    data: PrrDataParams = PrrDataParams()
    model: PrrModelParams = PrrModelParams(
        width=48, heads=2, hidden_multiple=32, mixer="mlp", prefix_tokens=1, num_branches=4
    )
    loss: PrrLossParams = PrrLossParams()
    train: PrrTrainParams = PrrTrainParams()
    control: bool = True
    """Train the model with one branch for as many core passes, too, and compare with it."""
    evaluate: PrrEvaluateParams = PrrEvaluateParams()
