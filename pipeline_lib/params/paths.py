"""Params of the stages from problems to training data."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import override

from pipeline_lib.params.sections import Count, Fraction, Positive, Section, Whole, head_faults
from pipeline_lib.params.serve import address_faults

LINES = "lines"
"""Name of the data set whose rows are of any form."""
GYM = "gym"
"""Name of the data set that is a mixture of those of reasoning-gym."""
PEER_SOLUTION = "peer_solution"
"""Column of a problem with a worked solution for peers that are made."""


class CountdownParams(Section):
    """Generator of Countdown problems. Numbers are uniform in [low, high], with repetition."""

    num_numbers: Annotated[int, Field(ge=2, le=6)] = 3
    low: Count = 1
    high: Count = 20
    target_low: Count = 10
    target_high: Count = 100
    test_number_sets: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the number sets that is reserved for the test split; 0: all splits share all sets."""


class WordProblemParams(Section):
    """Generator of word problems."""

    steps: Annotated[tuple[Literal[1, 2], ...], Field(min_length=1)] = (1, 2)
    """Numbers of steps of the solutions."""
    test_templates: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the templates that is reserved for the test split; 0: all splits share all templates, and
    only the numbers differ."""


class HopsParams(Section):
    """Generator of look-ups in tables, one after another.

    Each entity has two names, and a chain is in the first or in the second ones.
    """

    hops: Annotated[int, Field(ge=1, le=26)] = 6
    entities: Annotated[int, Field(ge=2, le=99)] = 32
    tables: Annotated[int, Field(ge=1, le=26)] = 4
    second: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the worked solutions with the second names."""
    peer_second: Annotated[float, Field(ge=0, le=1)] = 0.02
    """The same in the column of solutions for peers."""


class ColumnParams(Section):
    """dataset=lines: which column holds what; of several names the first with a value."""

    question: str = "question|problem|prompt|messages"
    answer: str = "answer|gold"
    id: str = "id|unique_id"
    tests: str = "tests"
    kind: str = "kind"
    messages: str | None = None
    """A list of {role, content} that asks in place of the question."""
    solution: str = "solution"


class SplitNames(Section):
    """dataset=lines: names of the splits in the source."""

    train: str = "train"
    test: str = "test"


class DataParams(Section):
    """A data set, where it is, and how its rows are read."""

    dataset: str
    """A name in `problems.loading`, which `params_file` checks."""
    source: str | None = None
    """A folder in the data set's original format, a file, or a hub id with or without ``:CONFIG``; not used by
    generated data."""
    columns: ColumnParams = ColumnParams()
    splits: SplitNames = SplitNames()
    kind: str | None = None
    """Kind of all rows; null: the one that a row names, else code or program for rows with tests, else math."""
    system: str | None = None
    """System prompt of every question, unless its messages have one."""
    gym: dict[str, Positive | dict[str, Any]] = Field(default_factory=dict)
    """dataset=gym: a mixture of data sets of reasoning-gym by name, with a weight, or with weight, level and config."""
    taskset: dict[str, Any] = Field(default_factory=dict)
    """dataset=verifiers:ID: fields of the config of the task set."""

    @override
    def faults(self) -> Iterator[str]:
        if bool(self.gym) != (self.dataset == GYM):
            yield f"dataset={self.dataset} and gym={list(self.gym)}: a mixture needs dataset=gym and names"
        if self.taskset and not self.dataset.startswith("verifiers:"):
            yield f"taskset is for dataset=verifiers:ID, not {self.dataset}"
        for name in ("columns", "splits", "kind", "system"):
            if (
                self.dataset != LINES
                and getattr(self, name) != type(self).model_fields[name].default
            ):
                yield f"{name} is for dataset={LINES}, not {self.dataset}"


class PrepareParams(DataParams):
    """The data set and the sizes of its splits."""

    dataset: str = "countdown"
    prompt: str | None = None
    """A template, as in ``Solve: {question}``, with the names of further columns, or FILE.py:function from a problem to
    a text or messages; null: question and answer format, or the compact prompt of the kind."""
    code_digest: str | None = None
    """Of a task of your own and of a prompt by a function; it is read from their files."""
    max_steps: Count | None = None
    """GSM8K: only problems whose solution has at most this number of calculations; null: all."""
    train_problems: Count = 8000
    test_problems: Count = 400
    bootstrap_problems: Whole = 1100
    countdown: CountdownParams = CountdownParams()
    word_problems: WordProblemParams = WordProblemParams()
    hops: HopsParams = HopsParams()

    @override
    def faults(self) -> Iterator[str]:
        yield from super().faults()
        if self.max_steps is not None and self.dataset != "gsm8k":
            yield (
                f"max_steps={self.max_steps}; only solutions of dataset=gsm8k mark their calculations"
            )


class BootstrapParams(Section):
    """The base policy: made from scratch, or taken from ``model``."""

    model: str | None = None
    """A Hugging Face folder or hub id; null trains a small Llama on worked solutions."""
    format_steps: Whole = 0
    """Steps of SFT of a given ``model`` on the worked solutions of the bootstrap split, which teach it the
    answer format; 0 copies the model. ``lr``, ``batch_size`` and the other settings below hold for them."""
    validation_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the worked problems that is held out from base and control; the control's checkpoint is
    selected by the loss on them. With a given ``model`` the control uses the train split instead."""
    hidden_size: Count = 128
    num_layers: Count = 4
    num_heads: Count = 4
    steps: Count = 500
    """Steps of a model from scratch."""
    initializer_range: Positive = 0.02
    """Deviation of its random weights."""
    batch_size: Count = 64
    lr: Positive = 2e-3
    warmup_fraction: Fraction = 0.05
    checkpoint_every: Count = 100
    threads: Count = 1
    """CPU threads of torch; part of the result, since they change the rounding of sums."""

    @override
    def faults(self) -> Iterator[str]:
        yield from head_faults(self.hidden_size, self.num_heads)
        if self.format_steps and self.model is None:
            yield (
                f"format_steps={self.format_steps}; a model from scratch learns the format in `steps`: "
                "set model, or format_steps=0"
            )


class ServerParams(Section):
    """A running OpenAI-compatible server whose model draws the paths of the rounds: a teacher, or the base elsewhere."""

    url: str | None = None
    """Its address, with the version, as in ``http://host:8000/v1``; null: the policy draws its own paths."""
    model: str | None = None
    """The model's name there; required with ``url``."""
    revision: str | None = None
    """Which model of this name: paths of another revision are drawn anew."""
    tokenizer: str | None = None
    """Hugging Face folder or id with the model's tokenizer. Prompts are sent as token ids if it is the
    policy's tokenizer, else as messages, or as text if it has no chat template; null: as messages."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable with the API key."""
    relative_cost: Positive = 1.0
    """Processor time of a token of this model, in tokens of the policy: the control trains for as much."""

    @override
    def faults(self) -> Iterator[str]:
        yield from address_faults(self.url, self.api_key_env)
        if self.url is not None and self.model is None:
            yield "model is null; name the model at url, which is part of what the paths are known by"


class SampleParams(Section):
    """Sampling of paths."""

    num_paths: Count = 6
    shots: Whole = 0
    """Worked problems of the bootstrap split before each question, as earlier turns of a chat. They are
    not in the prompts of training and evaluation."""
    temperature: Annotated[float, Field(ge=0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_new_tokens: Count = 32
    shard_size: Count = 500
    """Problems per shard, the unit of work, retry and resume."""
    batch_size: Count = 512
    """Paths decoded together by the embedded engine."""
    keep_tokens: bool = False
    """Store each path's token ids and log-probabilities, where the engine reports them."""
    server: ServerParams = ServerParams()

    @property
    def drawn_by_server(self) -> bool:
        """True if the model of a server draws the paths, not the policy."""
        return self.server.url is not None


class MathLimits(Section):
    """Time and memory limits of the processes that judge math answers."""

    soft_timeout_s: Positive = 2.0
    """CPU seconds per comparison."""
    hard_timeout_s: Positive = 3.0
    """CPU seconds after which the process is killed; the wall-clock limit is ten times as long."""
    memory_mb: Count = 1024


class CodeLimits(Section):
    """Limits of one sandboxed program."""

    timeout_s: Positive = 30.0
    """CPU seconds of a program. Reference solutions take 0.02 s, the slowest of 1,138 takes 3 s. The
    wall-clock limit is 2.5 times as long, 3.5 times while the program computes; a program that reaches
    it with less CPU time is not scored."""
    memory_mb: Count = 256
    tier: Literal["auto", "namespace", "landlock", "docker"] = "auto"


class OwnLimits(Section):
    """Limits of one call of a function of your own."""

    timeout_s: Positive = 10.0
    """Seconds; a call that reaches them is not scored."""
    memory_mb: Count = 1024
    """Beside what its file takes when it is imported."""


class VerifyParams(Section):
    """Limits of the verifiers, and a verifier of your own."""

    math: MathLimits = MathLimits()
    code: CodeLimits = CodeLimits()
    own: OwnLimits = OwnLimits()
    verifier: str | None = None
    """FILE.py:function, module:function or an entry point of reasonloop.verifiers, from the answer of a problem and a
    text to True, False, None (not scored) or a score in [0, 1]; null: the verifier of the problem's kind."""
    answer: str | None = None
    """The same, from a text to the answer that a vote counts; null: the form of the problem's kind."""
    code_digest: str | None = None
    """Of both functions; it is read from their files."""
    of_task: bool = False
    """The verifier is the one of the task, so both are for its problems alone; filled in where none is given."""


class BuildParams(Section):
    """Selection of judged paths as training data."""

    min_pass_rate: Fraction = 0.0
    """DPO and online methods keep problems with a pass rate strictly above this ..."""
    max_pass_rate: Fraction = 0.6
    """... and strictly below this."""
    max_pairs_per_problem: Count = 4
    max_length_ratio: Annotated[float, Field(ge=1)] = 2.0
    """Largest ratio of the lengths of a pair's texts, in characters."""
    correct_paths: Literal["all", "shortest", "right_calculations"] = "all"
    """SFT takes all distinct ones, the shortest of a problem, or all whose stated calculations are right."""
    worked_solutions: bool = True
    """Add the worked solutions of the bootstrap split to the SFT rows, for more diverse solutions."""

    @override
    def faults(self) -> Iterator[str]:
        if self.min_pass_rate >= self.max_pass_rate:
            yield (
                f"min_pass_rate={self.min_pass_rate} is not below max_pass_rate={self.max_pass_rate}"
            )
