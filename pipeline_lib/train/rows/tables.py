"""Input, output and table names of the builders."""

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
"""SFT rows before an online method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """Everything except the groups that determines the rows."""

    params: BuildParams
    """Bounds and limits."""
    render: Callable[[Problem], str]
    """Renders a problem's prompt as for sampling."""
    seed: int
    """Root seed of the row order and of ties between pairs."""
    verifier_version: str
    """Version of the verifier that judged the paths."""
    worked: Sequence[Row] = ()
    """Worked solutions {problem_id, prompt, completion} to add to the SFT rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The rows that a method trains on, and their counts."""

    rows: Sequence[Row]
    counts: Mapping[str, float]
    warm_start: Sequence[Row] | None = None
    """SFT rows before the method's training; None for offline methods."""


def shuffle_by_seed(rows: Iterable[Row], seed: int, *id_columns: str) -> list[Row]:
    """Shuffle by seed and id, independent of the input order."""
    return sorted(
        rows, key=lambda row: child_seed(seed, "build", *(row[name] for name in id_columns))
    )
