"""Builds the training rows of a method from judged groups."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.train import Method
from pipeline_lib.records import Group, Row
from pipeline_lib.train.rows.card import make_data_card
from pipeline_lib.train.rows.preferences import build_preferences
from pipeline_lib.train.rows.rollout_groups import build_rollout_groups
from pipeline_lib.train.rows.supervised import build_supervised
from pipeline_lib.train.rows.tables import MAIN_TABLE, WARM_START_TABLE, BuildContext, Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainData:
    """Rows by table, counts, and the data card (Markdown)."""

    rows_by_table: Mapping[str, Sequence[Row]]
    counts: Mapping[str, float]
    card: str


BUILDERS: Mapping[Method, Callable[[Sequence[Group], BuildContext], Tables]] = {
    Method.SFT: build_supervised,
    Method.DPO: build_preferences,
    Method.GRPO: build_rollout_groups,
    Method.RLOO: build_rollout_groups,
    Method.PPO: build_rollout_groups,
}


def build(method: Method, groups: Sequence[Group], context: BuildContext) -> TrainData:
    """Build the training data of ``method``, independent of the order of the groups.

    Args:
        method: training method.
        groups: judged paths by problem.
        context: params, prompts and seed.

    Raises:
        BadInputError: there are no rows to train on; the message has the counts.
    """
    tables = BUILDERS[method](groups, context)
    if not tables.rows:
        counts = ", ".join(f"{name}={count}" for name, count in tables.counts.items())
        raise BadInputError(
            f"build: no {method.value} rows ({counts}); sample more paths, widen the bounds in "
            "build.*, or train the format first if most paths are wrong in format only"
        )
    rows_by_table = {MAIN_TABLE[method]: tables.rows}
    if tables.warm_start is not None:
        rows_by_table[WARM_START_TABLE] = tables.warm_start
    return TrainData(
        rows_by_table=rows_by_table,
        counts=tables.counts,
        card=make_data_card(method, groups, tables.counts, context),
    )
