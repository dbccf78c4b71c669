"""The study of an evaluation: accuracy and claims of each model, votes, and differences at equal tokens and paths.

A vote is for the claimed operations, right or wrong; a rollout without a claim abstains.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.study.attempts import Attempt, Cost
from pipeline_lib.study.selection import mean_longest
from pipeline_lib.study.statistics.majority import Vote, majority_at_k
from pipeline_lib.study.statistics.pass_at_k import pass_at_k
from pipeline_lib.study.study import ALL, Arm, Contrast, Series, Study, arm_name, make_study
from pipeline_lib.systems.apr.evaluation.plans import ModelSetting
from pipeline_lib.systems.apr.task import Row
from pipeline_lib.systems.apr.threads import Event

TOKEN_COUNTS = ("drawn", "critical", "total", "longest")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRows:
    """The rows of all rollouts of one setting, in the order of the problems."""

    setting: ModelSetting
    rows: Sequence[Row]

    @property
    def whole(self) -> list[Row]:
        """The rollouts whose parent did not fail."""
        return [row for row in self.rows if "error" not in row]

    @property
    def by_problem(self) -> dict[str, list[Row]]:
        """The rollouts that did not fail, by problem; a problem without any is left out."""
        found: dict[str, list[Row]] = {}
        for row in self.whole:
            found.setdefault(row["problem_id"], []).append(row)
        return found

    def mean_tokens(self, count: str) -> float:
        """Mean of one of `TOKEN_COUNTS` over rollouts."""
        return float(np.mean([row["tokens"][count] for row in self.whole]))


def most_accurate(drawn: Sequence[DrawnRows]) -> ModelSetting:
    """The most accurate setting; of equally accurate ones the one with the shortest critical path."""
    best = max(
        drawn,
        key=lambda one: (
            np.mean([*_share(one.by_problem).values()]),
            -one.mean_tokens("critical"),
        ),
    )
    return best.setting


def _share(
    groups: Mapping[str, Sequence[Row]],
    holds: Callable[[Row], bool] = lambda row: row["is_correct"],
) -> dict[str, float]:
    """By problem, the share of rollouts that ``holds``; by default of right ones."""
    return {name: float(np.mean([holds(row) for row in rows])) for name, rows in groups.items()}


EQUAL_PATH, BOTH_CUT = "equal path", "equal path, both"
_BASES = {f"{name}-rl": f"{name} rl" for name in ("parallel", "serial", "terse")}
_ORDER = tuple(
    (f"parallel{after}", f"{rival}{after}")
    for after in (" rl", "")
    for rival in ("terse", "serial")
)
"""Pairs that a run is about, the first that there is; the terse serial model is the harder rival."""


def apr_study(
    drawn: Sequence[DrawnRows],
    evaluate: EvaluateParams,
    *,
    seed: int,
    seen: Mapping[str, frozenset[str]],
    provenance: Mapping[str, str | None],
) -> tuple[Study, list[Series]]:
    """The study and its series; of each setting at least one rollout did not fail.

    ``seen`` has the ids of evaluated problems that a training saw, by name of the model.
    """
    arms = [_arm(one, seen) for one in drawn]
    contrasts = sorted(
        [*_at_equal_tokens(drawn, arms), *_pairs(drawn, arms), *_at_equal_path(drawn, arms)],
        key=_rank,
    )
    bases = {arm.base for arm in arms}
    own = [
        (*_own_series(one, arm), *_votes(one, arm)) for one, arm in zip(drawn, arms, strict=True)
    ]
    votes = [one.reference for one in contrasts if one.reference.arm.base not in bases]
    # Without votes that are both points of a curve and references of a contrast.
    distinct = {
        (one.arm.base, *sorted(one.arm.settings.items()), one.measure, one.subset): one
        for one in (*itertools.chain.from_iterable(own), *votes)
    }
    series = [*distinct.values()]
    study = make_study(
        "apr",
        series,
        contrasts,
        evaluate=evaluate,
        seed=seed,
        provenance=provenance,
        left_out={
            f"{one.setting.label}: failed rollouts": len(one.rows) - len(one.whole) for one in drawn
        },
        compute={
            "events": {
                one.setting.label: {
                    event.value: float(
                        np.mean([row["events"].get(event.value, 0) for row in one.whole])
                    )
                    for event in Event
                }
                for one in drawn
            },
            "tokens": {one.setting.label: one.mean_tokens("total") for one in drawn},
        },
    )
    return study, series


def _arm(drawn: DrawnRows, seen: Mapping[str, frozenset[str]]) -> Arm:
    setting = drawn.setting
    return Arm(
        base=_BASES.get(setting.name, setting.name),
        settings={"T": setting.temperature, "condition": setting.condition or "none"},
        seen=seen.get(setting.name, frozenset()),
    )


def _own_series(drawn: DrawnRows, arm: Arm) -> Iterator[Series]:
    groups = drawn.by_problem
    costs = {name: Cost.mean([cost_of(row) for row in rows]) for name, rows in groups.items()}
    yield Series(
        arm=arm,
        measure="accuracy",
        values=_share(groups),
        costs=costs,
        seed_names=("apr", "accuracy"),
        is_binomial=all(row["sample"] == 0 for row in drawn.rows),
    )
    claimed = {
        name: [row for row in rows if row["claim"] is not None] for name, rows in groups.items()
    }
    shares = {
        "claims": _share(groups, lambda row: row["claim"] is not None),
        "false claims": _share(
            {name: rows for name, rows in claimed.items() if rows},
            lambda row: not row["is_correct"],
        ),
    }
    if drawn.setting.kind == "parallel":
        shares |= {name: _means(groups, name) for name in _measures(drawn)}
    for measure, values in shares.items():
        yield Series(arm=arm, measure=measure, values=values, seed_names=("apr", measure))


def _measures(drawn: DrawnRows) -> list[str]:
    """Names of the task's own figures, as they first occur."""
    return [*dict.fromkeys(name for row in drawn.whole for name in row["measures"])]


def _means(groups: Mapping[str, Sequence[Row]], name: str) -> dict[str, float]:
    known = {
        problem: [row["measures"][name] for row in rows if name in row["measures"]]
        for problem, rows in groups.items()
    }
    return {problem: float(np.mean(some)) for problem, some in known.items() if some}


def cost_of(row: Row) -> Cost:
    """The cost of a rollout."""
    tokens = row["tokens"]
    in_no_sequence = sum(
        row["events"].get(event.value, 0) for event in (Event.WASTED_TOKENS, Event.DROPPED_TOKENS)
    )
    return Cost(
        drawn=tokens["drawn"],
        prompt=tokens["total"] - (tokens["drawn"] - in_no_sequence),
        critical=tokens["critical"],
        longest=tokens["longest"],
    )


def _votes(drawn: DrawnRows, arm: Arm) -> Iterator[Series]:
    """Votes of 1, 2, 4, ... and of all samples, and the best of as many; none with one sample of each problem."""
    most = max(map(len, drawn.by_problem.values()), default=0)
    if most > 1:
        sizes = [2**power for power in range(most.bit_length()) if 2**power < most]
        for k in (*sizes, most):
            yield _of_several(drawn, arm, k)
            yield _of_several(drawn, arm, k, oracle=True)


def _of_several(drawn: DrawnRows, arm: Arm, k: int, *, oracle: bool = False) -> Series:
    """The accuracy of a vote of ``k`` samples; ``oracle``: pass@k, an upper bound of every choice among them."""
    groups = {name: rows for name, rows in drawn.by_problem.items() if len(rows) >= k}
    chooser = Arm(
        base="oracle" if oracle else f"{drawn.setting.kind} vote",
        settings={**arm.settings, "of": arm.base, "paths": k},
        upper_bound=oracle,
        seen=arm.seen,
    )
    values = {
        name: pass_at_k(len(rows), sum(row["is_correct"] for row in rows), k)
        if oracle
        else majority_at_k(
            [Vote(answer=row["answer"], correct=row["is_correct"]) for row in rows], k
        )
        for name, rows in groups.items()
    }
    return Series(
        arm=chooser,
        measure="accuracy",
        values=values,
        costs={name: _cost_of_several(rows, k) for name, rows in groups.items()},
        seed_names=("apr", "any sample" if oracle else "consensus", k),
    )


def _cost_of_several(rows: Sequence[Row], k: int) -> Cost:
    mean = Cost.mean([cost_of(row) for row in rows])
    critical, longest = (
        mean_longest([row["tokens"][count] for row in rows], k) for count in ("critical", "longest")
    )
    return Cost(drawn=k * mean.drawn, prompt=k * mean.prompt, critical=critical, longest=longest)


def _rank(contrast: Contrast) -> tuple[bool, bool, int]:
    """Earlier over all rollouts, then at one temperature, then for pairs of `_ORDER`; upper bounds are no headline."""
    candidate, reference = contrast.candidate.arm, contrast.reference.arm
    pair = candidate.base, reference.settings.get("of", reference.base)
    counts = contrast.subset is None and not reference.upper_bound
    place = _ORDER.index(pair) if pair in _ORDER else len(_ORDER)
    return not counts, candidate.settings["T"] != reference.settings["T"], place


def _pairs(drawn: Sequence[DrawnRows], arms: Sequence[Arm]) -> Iterator[Contrast]:
    """All pairs of different models at one temperature.

    A pair of both kinds is parallel minus serial, any other one the later minus the earlier.
    """
    for (place, first), (later, second) in itertools.combinations(enumerate(drawn), 2):
        settings = first.setting, second.setting
        if settings[0].name == settings[1].name or len({s.temperature for s in settings}) > 1:
            continue
        is_flipped = [setting.kind for setting in settings] == ["parallel", "serial"]
        base, model = (later, place) if is_flipped else (place, later)
        yield Contrast(
            candidate=_accuracy(drawn[model], arms[model]),
            reference=_accuracy(drawn[base], arms[base]),
            seed_names=("apr", "pair", place, later),
        )


def _of_both_kinds(drawn: Sequence[DrawnRows]) -> Iterator[tuple[int, int]]:
    """Places of a parallel and a serial setting."""
    for first, second in itertools.product(range(len(drawn)), repeat=2):
        if (drawn[first].setting.kind, drawn[second].setting.kind) == ("parallel", "serial"):
            yield first, second


def _at_equal_tokens(drawn: Sequence[DrawnRows], arms: Sequence[Arm]) -> Iterator[Contrast]:
    """Each parallel setting against as many samples of each serial one as draw at least its tokens."""
    for parallel, serial in _of_both_kinds(drawn):
        one, other = drawn[parallel], drawn[serial]
        if not any(row["sample"] for row in other.rows):
            continue
        samples = math.ceil(one.mean_tokens("drawn") / other.mean_tokens("drawn"))
        for oracle in (False, True):
            reference = _of_several(other, arms[serial], samples, oracle=oracle)
            if reference.values:
                yield Contrast(
                    candidate=_accuracy(one, arms[parallel]),
                    reference=reference,
                    seed_names=("apr", "equal tokens", parallel, serial),
                )


def _at_equal_path(drawn: Sequence[DrawnRows], arms: Sequence[Arm]) -> Iterator[Contrast]:
    """Each parallel setting against each serial one at its temperature, whose longer rollouts count as wrong."""
    for parallel, serial in _of_both_kinds(drawn):
        one, other = drawn[parallel], drawn[serial]
        if one.setting.temperature != other.setting.temperature:
            continue
        most = one.mean_tokens("critical")
        names = ("apr", "equal path", parallel, serial)
        cut = _accuracy(other, arms[serial], most=most)
        yield Contrast(
            candidate=_accuracy(one, arms[parallel]),
            reference=cut,
            seed_names=names,
            subset=EQUAL_PATH,
        )
        yield Contrast(
            candidate=_accuracy(one, arms[parallel], most=most),
            reference=cut,
            seed_names=names,
            inner_names=("both cut",),
            subset=BOTH_CUT,
        )


def _accuracy(drawn: DrawnRows, arm: Arm, *, most: float = math.inf) -> Series:
    """The accuracy, where rollouts with a critical path above ``most`` count as wrong."""
    values = _share(
        drawn.by_problem, lambda row: row["is_correct"] and row["tokens"]["critical"] <= most
    )
    return Series(
        arm=arm, measure="accuracy", values=values, subset=ALL if most == math.inf else EQUAL_PATH
    )


def rollout_attempts(study: Study, drawn: Sequence[DrawnRows]) -> Iterator[Attempt]:
    """Every rollout as an attempt; of a failed one it is unknown if it is right."""
    for one in drawn:
        arm = _arm(one, {})
        name = arm_name(study, arm.base, **arm.settings)
        assert name is not None
        for row in one.rows:
            is_whole = "error" not in row
            yield Attempt(
                problem_id=row["problem_id"],
                arm=name,
                sample=row["sample"],
                right=row["is_correct"] if is_whole else None,
                answer=row["answer"],
                cost=cost_of(row),
                extra=row["measures"],
            )
