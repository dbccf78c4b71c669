"""Lineage columns of training rows."""

import json
from collections.abc import Sequence

from pipeline_lib.records import Group, Path, Row


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
    paths = [member.path for member in group.members]
    return {
        "path_ids": json.dumps([path.id for path in paths]),
        "model": _joined([path.provenance.model for path in paths]),
        "adapter": _joined([path.provenance.adapter for path in paths]),
        "template": _joined([path.provenance.template for path in paths]),
        "seeds": json.dumps([path.provenance.seed for path in paths]),
    }


def _joined(names: Sequence[str | None]) -> str | None:
    return ", ".join(sorted({name for name in names if name is not None})) or None
