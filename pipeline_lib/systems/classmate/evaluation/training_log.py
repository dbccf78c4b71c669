"""Counts from the training log of a policy."""

import pathlib

from pipeline_lib.store.files import read_json_lines
from pipeline_lib.train.weights.policies import LOG_NAME


def count_draws_without_peers(model: pathlib.Path) -> int | None:
    """Draws in which no peer gave any score; None if the model was not trained with peers."""
    log = model / LOG_NAME
    rows = [row for row in read_json_lines(log) if "base_reward" in row] if log.is_file() else []
    return sum("avg_classmate_score" not in row for row in rows) if rows else None
