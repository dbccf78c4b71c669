"""Input, output, table names and lineage columns of the builders."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.params.paths import BuildParams
from pipeline_lib.params.train import Method
from pipeline_lib.records import Group, Path, Problem, Row
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
class TrainData:
    """Rows by table, counts, and the data card (Markdown)."""

    rows_by_table: Mapping[str, Sequence[Row]]
    counts: Mapping[str, float]
    card: str = ""


def shuffle_by_seed(rows: Iterable[Row], seed: int, *id_columns: str) -> list[Row]:
    """Shuffle by seed and id, independent of the input order."""
    return sorted(
        rows, key=lambda row: child_seed(seed, "build", *(row[name] for name in id_columns))
    )


def path_lineage(path: Path, *, prefix: str = "") -> Row:
    """Path id, policy, prompt template and seed; ``prefix`` separates the paths of a pair."""
    origin = path.provenance
    return {
        f"{prefix}path_id": path.id,
        f"{prefix}model": origin.model,
        f"{prefix}adapter": origin.adapter,
        f"{prefix}template": origin.template,
        f"{prefix}seed": origin.seed,
    }


def group_lineage(group: Group) -> Row:
    """Path ids and seeds of a group (JSON lists) and its distinct policies."""
    lineage = [path_lineage(member.path) for member in group.members]

    def joined(name: str) -> str | None:
        return ", ".join(sorted({row[name] for row in lineage} - {None})) or None

    return {
        "path_ids": json.dumps([row["path_id"] for row in lineage]),
        **{name: joined(name) for name in ("model", "adapter", "template")},
        "seeds": json.dumps([row["seed"] for row in lineage]),
    }
