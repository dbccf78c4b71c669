"""Builds the training rows of a method from judged groups, and their data card.

The card is Markdown about the origin and content of the rows. It has no run-specific values such as times,
so equal data have equal cards.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.train import Method
from pipeline_lib.records import Group
from pipeline_lib.train.rows.preferences import build_preferences
from pipeline_lib.train.rows.supervised import build_rollout_groups, build_supervised
from pipeline_lib.train.rows.tables import MAIN_TABLE, BuildContext, TrainData

_ONLINE = (
    "`problems` are those within the difficulty bounds, for new groups to be drawn; "
    "`warm_start` holds distinct right paths for SFT before that."
)
_WHAT: Mapping[Method, str] = {
    Method.SFT: "Distinct paths that are strictly right and ended by themselves, from every "
    "problem that has one; worked solutions of other problems join them where there are any.",
    Method.DPO: "Pairs of a strictly right and a wrong path of one problem. Rejected paths are "
    "wrong by reasoning: none is wrong in format only, unparsed or truncated.",
    Method.GRPO: _ONLINE,
    Method.RLOO: _ONLINE,
    Method.PPO: _ONLINE,
}

BUILDERS: Mapping[Method, Callable[[Sequence[Group], BuildContext], TrainData]] = {
    Method.SFT: build_supervised,
    Method.DPO: build_preferences,
    Method.GRPO: build_rollout_groups,
    Method.RLOO: build_rollout_groups,
    Method.PPO: build_rollout_groups,
}


def build(method: Method, groups: Sequence[Group], context: BuildContext) -> TrainData:
    """Build the training data of ``method``, independent of the order of the groups.

    Raises:
        BadInputError: there are no rows to train on; the message has the counts.
    """
    built = BUILDERS[method](groups, context)
    if not built.rows_by_table[MAIN_TABLE[method]]:
        counts = ", ".join(f"{name}={count}" for name, count in built.counts.items())
        raise BadInputError(
            f"build: no {method.value} rows ({counts}); sample more paths, widen the bounds in "
            "build.*, or train the format first if most paths are wrong in format only"
        )
    return replace(built, card=_make_card(method, groups, built.counts, context))


def _make_card(
    method: Method, groups: Sequence[Group], counts: Mapping[str, float], context: BuildContext
) -> str:
    """Method, counts, settings and origin of the rows, as Markdown."""
    return "\n".join(
        [
            f"# Training data for {method.value.upper()}",
            "",
            _WHAT[method],
            "",
            *_section("Problems, paths and rows", ("figure", "value"), counts),
            *_section("Settings", ("setting", "value"), context.params.model_dump()),
            *_section("Origin", ("what", "value"), _origin(groups, context)),
        ]
    )


def _origin(groups: Sequence[Group], context: BuildContext) -> dict[str, str | int]:
    origins = [member.path.provenance for group in groups for member in group.members]
    return {
        "problems from": _names({group.problem.source for group in groups}),
        "model": _names({origin.model for origin in origins}),
        "adapter": _names({origin.adapter or "none" for origin in origins}),
        "prompt template": _names({origin.template for origin in origins}),
        "verifier version": context.verifier_version,
        "seed": context.seed,
    }


def _names(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _section(
    title: str, heads: tuple[str, str], values: Mapping[str, str | float]
) -> Sequence[str]:
    lines = [f"| {name} | {_shown(value)} |" for name, value in values.items()]
    return [f"## {title}", "", f"| {heads[0]} | {heads[1]} |", "| --- | --- |", *lines, ""]


def _shown(value: str | float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
