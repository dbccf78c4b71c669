"""Builds the training rows of a method from judged groups, and their data card.

The card is Markdown about the origin and content of the rows. It has no run-specific values such as times,
so equal data have equal cards.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import BuildParams
from pipeline_lib.params.train import Method
from pipeline_lib.records import Group, JudgedPath, Pair, Path, Problem, Row
from pipeline_lib.seeding import child_seed
from pipeline_lib.train.rows.filters import (
    count_paths,
    deduplicate,
    filter_by_difficulty,
    is_complete,
    pass_rate,
    states_right_calculations,
)
from pipeline_lib.verdicts import Status

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


def build_supervised(groups: Sequence[Group], context: BuildContext) -> TrainData:
    """SFT rows; the difficulty bounds do not apply."""
    rows = make_supervised_rows(groups, context)
    return TrainData(
        rows_by_table={MAIN_TABLE[Method.SFT]: rows}, counts=count_supervised(groups, rows)
    )


def build_rollout_groups(groups: Sequence[Group], context: BuildContext) -> TrainData:
    """Online methods: problems within the difficulty bounds, and SFT rows of all solved problems.

    Stored groups are off-policy, so online methods sample their own; the stored ones select the problems and
    serve a warm start.
    """
    kept, counts = filter_by_difficulty(groups, context.params)
    warm_start = make_supervised_rows(groups, context)
    problems: list[Row] = [
        {
            "problem_id": group.problem.id,
            "prompt": context.render(group.problem),
            "pass_rate": pass_rate(group),
            "num_scored": len(group.scored()),
            **group_lineage(group),
            "verifier_version": context.verifier_version,
        }
        for group in kept
    ]
    return TrainData(
        rows_by_table={
            MAIN_TABLE[Method.GRPO]: shuffle_by_seed(problems, context.seed, "problem_id"),
            WARM_START_TABLE: warm_start,
        },
        counts=count_supervised(groups, warm_start) | counts,
    )


def make_supervised_rows(groups: Sequence[Group], context: BuildContext) -> list[Row]:
    """Rows {prompt, completion, lineage} of the complete, strictly right paths.

    If there are any, worked solutions are added, with empty lineage.
    """
    rows: list[Row] = [
        {
            "problem_id": group.problem.id,
            "prompt": context.render(group.problem),
            "completion": member.path.text,
            **path_lineage(member.path),
            "verifier_version": context.verifier_version,
        }
        for group in groups
        for member in _right_paths(group, context.params)
    ]
    if rows:
        rows += [
            dict.fromkeys(rows[0]) | row | {"path_id": f"{row['problem_id']}#worked-{number}"}
            for number, row in enumerate(context.worked)
        ]
    return shuffle_by_seed(rows, context.seed, "path_id")


def _right_paths(group: Group, params: BuildParams) -> list[JudgedPath]:
    right = [member for member in group.members if member.verdict.strict and is_complete(member)]
    if params.correct_paths == "right_calculations":
        right = [member for member in right if states_right_calculations(member.path.text)]
    if params.correct_paths == "shortest":
        right.sort(key=lambda member: (len(member.path.text), member.path.index))
        return right[:1]
    return deduplicate(right)


def count_supervised(groups: Sequence[Group], rows: Sequence[Row]) -> dict[str, int]:
    """Counts of paths, problems and rows."""
    drawn = [row for row in rows if row["model"] is not None]
    return count_paths(groups) | {
        "sft_rows": len(rows),
        "sft_problems": len({row["problem_id"] for row in drawn}),
        "sft_worked_rows": len(rows) - len(drawn),
    }


MAX_USES_OF_A_PATH = 2
WRONG_BY_REASONING = frozenset(
    {Status.WRONG, Status.CRASHED, Status.TIMEOUT, Status.MEMORY, Status.OUTPUT_LIMIT}
)
"""The last four are failures of the candidate program, not of the verifier."""


def build_preferences(groups: Sequence[Group], context: BuildContext) -> TrainData:
    """Pairs from the problems within the difficulty bounds."""
    kept, problems = filter_by_difficulty(groups, context.params)
    pairs = [pair for group in kept for pair in match_pairs(group, context)]
    rows = [_row(pair, context) for pair in pairs]
    ids = ("chosen_path_id", "rejected_path_id")
    return TrainData(
        rows_by_table={MAIN_TABLE[Method.DPO]: shuffle_by_seed(rows, context.seed, *ids)},
        counts={
            **count_paths(groups),
            **problems,
            "dpo_rows": len(rows),
            "dpo_problems": len({pair.problem.id for pair in pairs}),
            **measure_length_bias(pairs),
        },
    )


def match_pairs(group: Group, context: BuildContext) -> list[Pair]:
    """At most ``max_pairs_per_problem`` pairs, preferring unused paths and similar lengths.

    The longer text has at most ``max_length_ratio`` times the characters of the shorter. A path is
    in at most two pairs; near duplicates count as one path.
    """
    members = [member for member in group.members if is_complete(member)]
    chosen = deduplicate(member for member in members if member.verdict.strict)
    rejected = deduplicate(member for member in members if is_wrong_by_reasoning(member))
    candidates = [
        Pair(problem=group.problem, chosen=right, rejected=wrong)
        for right in chosen
        for wrong in rejected
        if _log_ratio(right, wrong) <= math.log(context.params.max_length_ratio)
    ]
    candidates.sort(key=lambda pair: _preference(pair, context.seed))
    return _least_used(candidates, at_most=context.params.max_pairs_per_problem)


def is_wrong_by_reasoning(member: JudgedPath) -> bool:
    """True if the answer itself is wrong, not only its format."""
    return member.verdict.lenient is False and member.verdict.status in WRONG_BY_REASONING


def _log_ratio(first: JudgedPath, second: JudgedPath) -> float:
    return abs(math.log(len(first.path.text) / len(second.path.text)))


def _preference(pair: Pair, seed: int) -> tuple[float, int]:
    tie_break = child_seed(seed, "pair", pair.chosen.path.id, pair.rejected.path.id)
    return _log_ratio(pair.chosen, pair.rejected), tie_break


def _least_used(candidates: Iterable[Pair], *, at_most: int) -> list[Pair]:
    uses: Counter[str] = Counter()
    pairs: list[Pair] = []
    remaining = list(candidates)
    while remaining and len(pairs) < at_most:
        # Candidates are sorted by length ratio, and min() takes the first of equals.
        best = min(remaining, key=lambda pair: sum(uses[name] for name in _path_ids(pair)))
        pairs.append(best)
        uses.update(_path_ids(best))
        remaining = [
            pair
            for pair in remaining
            if pair is not best and all(uses[name] < MAX_USES_OF_A_PATH for name in _path_ids(pair))
        ]
    return pairs


def _path_ids(pair: Pair) -> tuple[str, str]:
    return pair.chosen.path.id, pair.rejected.path.id


def measure_length_bias(pairs: Sequence[Pair]) -> dict[str, float]:
    """Mean characters of chosen and rejected texts, and their ratio; empty without pairs.

    DPO learns a length bias if the ratio is far from 1.
    """
    if not pairs:
        return {}
    chosen = sum(len(pair.chosen.path.text) for pair in pairs) / len(pairs)
    rejected = sum(len(pair.rejected.path.text) for pair in pairs) / len(pairs)
    return {
        "chosen_mean_chars": chosen,
        "rejected_mean_chars": rejected,
        "chosen_to_rejected_chars": chosen / rejected,
    }


def _row(pair: Pair, context: BuildContext) -> Row:
    return {
        "problem_id": pair.problem.id,
        "prompt": context.render(pair.problem),
        "chosen": pair.chosen.path.text,
        "rejected": pair.rejected.path.text,
        **path_lineage(pair.chosen.path, prefix="chosen_"),
        **path_lineage(pair.rejected.path, prefix="rejected_"),
        "verifier_version": context.verifier_version,
    }


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
