"""The data card: Markdown about the origin and content of training data.

It has no run-specific values such as times, so equal data have equal cards.
"""

from collections.abc import Mapping, Sequence

from pipeline_lib.params.train import Method
from pipeline_lib.records import Group
from pipeline_lib.train.rows.tables import BuildContext

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


def make_data_card(
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
