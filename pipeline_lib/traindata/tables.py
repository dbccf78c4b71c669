"""What a builder is told, what it gives back, and what the tables are called."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.params.paths import BuildParams
from pipeline_lib.params.train import Method
from pipeline_lib.records import Problem, Row
from pipeline_lib.seeding import child_seed

MAIN_TABLE: Mapping[Method, str] = {
    Method.SFT: "sft",
    Method.DPO: "dpo",
    Method.GRPO: "problems",
    Method.RLOO: "problems",
    Method.PPO: "problems",
}
"""The table that a method trains on."""
WARM_START_TABLE = "warm_start"
"""SFT rows for before an online method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """Everything but the groups that decides what the rows are."""

    params: BuildParams
    """Bounds and limits."""
    render: Callable[[Problem], str]
    """The prompt of a problem, exactly as it was sampled."""
    seed: int
    """The root seed; it decides the order of the rows and ties between pairs."""
    verifier_version: str
    """What judged the paths."""
    worked: Sequence[Row] = ()
    """Worked solutions {problem_id, prompt, completion} that join the SFT rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The rows that a method trains on, and figures about them."""

    rows: Sequence[Row]
    counts: Mapping[str, float]
    warm_start: Sequence[Row] | None = None
    """SFT rows for before the method's own training; None if it has no use for any."""


def in_seeded_order(rows: Iterable[Row], seed: int, *id_columns: str) -> list[Row]:
    """Shuffle by seed and id, so that the order of the input does not matter."""
    return sorted(
        rows, key=lambda row: child_seed(seed, "build", *(row[name] for name in id_columns))
    )
