"""The study of PaCoRe: accuracy of votes and of syntheses, and each synthesis minus the best vote of no more cost.

Votes choose without labels; then choices are scored. The reference is the vote that is best on the same problems,
so the differences favour votes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.study.attempts import Cost
from pipeline_lib.study.headline import claims_of
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.statistics.intervals import DifferenceFinding
from pipeline_lib.study.study import (
    Arm,
    Contrast,
    Difference,
    Series,
    Study,
    arm_names,
    make_study,
)
from pipeline_lib.systems.pacore.gates import Gate, gates_of
from pipeline_lib.systems.pacore.retries import Retries, Rival, retry_claim
from pipeline_lib.systems.pacore.trials import GREEDY, OTHER, PLAIN, JudgedProblem
from pipeline_lib.systems.pacore.votes import (
    ARM_OF,
    BOUNDS,
    OF_ONE_PATH,
    Axis,
    Vote,
    VoteRule,
    Votes,
)

_ONE_PATH = "one path"
_LEFT_OUT = "a call or the verifier failed"
_CAPPED = "capped, as even the vote of all plain paths costs less"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedModel:
    """The judged problems of a model."""

    name: str
    problems: Sequence[JudgedProblem]
    """The same for all models of a study."""
    seen: frozenset[str] = frozenset()
    """Ids of problems that its training saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """A strategy of a model, and the best vote of the paths of one model that costs no more on one axis."""

    model: str
    key: tuple[str, Axis]
    """Strategy and axis."""
    vote: Vote
    accuracy: float
    """Of the vote."""
    tokens: float
    """Of the vote on the axis."""
    capped: bool
    contrast: Contrast


def pacore_study(  # noqa: PLR0913 - what is compared and how
    models: Sequence[EvaluatedModel],
    *,
    about: str,
    params: EvaluateParams,
    seed: int,
    provenance: Mapping[str, str | None],
    num_left_out: int = 0,
    retries: Retries | None = None,
) -> tuple[Study, list[Series]]:
    """The study, and the series that its points are of.

    The first differences are for the model that it is ``about``, one for each strategy and axis: its synthesis minus
    the best vote of any model, since training may weaken the votes of a model. Those minus ``retries`` are behind.

    Raises:
        BadInputError: there are no problems.
    """
    if not models[0].problems:
        raise BadInputError(
            "no problem has all paths that the comparison needs; look at the failures of engine and verifier"
        )
    votes = {one.name: Votes(one.problems, seed=seed) for one in models}
    series = [found for one in models for found in _series(one, votes[one.name])]
    compared = list(_comparisons(models, votes))
    first = _strongest([one for one in compared if one.model == about])
    ordered = [*first, *(one for one in compared if all(one is not other for other in first))]
    rivals = [
        one
        for synthesis in (
            found for one in models if one.name == about for found in _own_syntheses(one)
        )
        for one in (retries.contrasts(synthesis) if retries else ())
    ]
    # Serial retry at free length is a rival of every synthesis.
    series += {str(one.reference.arm): one.reference for one in rivals}.values()
    study = make_study(
        "pacore",
        series,
        [*(one.contrast for one in ordered), *rivals],
        evaluate=params,
        seed=seed,
        provenance=provenance,
        left_out={_LEFT_OUT: num_left_out},
    )
    [gates] = [[*gates_of(one.problems)] for one in models if one.name == about]
    compute = _compute(models, ordered, study)
    if gates:
        compute["gates"] = [asdict(one) for one in gates]
    study = replace(study, compute=compute)
    claims = [*_gate_claims(gates), *claims_of(study)]
    claims.append(_overview(first, study.differences[: len(first)]))
    if rivals:
        of_first = study.differences[len(ordered) :][: len(Rival)]
        claims.append(retry_claim(rivals[: len(Rival)], of_first))
    return study.with_claims(tuple(claims)), series


def _gate_claims(gates: Sequence[Gate]) -> tuple[str, ...]:
    failed = [f"{one.name} {one.percent:.2f} %" for one in gates if not one.holds]
    if not failed:
        return ()
    return (f"No claim, since {len(failed)} of {len(gates)} gates fail: {', '.join(failed)}",)


def gate_tables(study: Study) -> list[Table]:
    """The gates, as a table before all others; none for a task without parts."""
    rows = tuple(
        (
            one["name"],
            f"{one['percent']:.2f}",
            one["bound"],
            f"{one['n']}",
            "yes" if one["holds"] else "NO",
        )
        for one in study.compute.get("gates", ())
    )
    columns = ("share of parts, %", "value", "bounds", "n", "holds")
    return (
        [Table(caption="Gates, before any comparison", columns=columns, rows=rows)] if rows else []
    )


def further_tables(study: Study) -> list[Table]:
    """Which votes are the references, and how many references the calls of a synthesis saw."""
    votes, references = study.compute["best_votes"], study.compute["references"]
    return [
        Table(
            caption=f"Best votes that cost no more, and their tokens on that axis ({_CAPPED})",
            columns=("reference", "vote", "tokens"),
            rows=tuple(
                (
                    name,
                    f"{one['vote']} of {one['paths']}",
                    f"{one['tokens']:.0f}{', capped' if one['capped'] else ''}",
                )
                for name, one in votes.items()
            ),
        ),
        Table(
            caption="References per call after the first round (dropped: they did not fit into the context)",
            columns=("arm", "shown", "dropped"),
            rows=tuple(
                (name, f"{one['shown']:.1f}", f"{one['dropped']:.1f}")
                for name, one in references.items()
            ),
        ),
    ]


def attempt_arms(series: Sequence[Series], model: str) -> dict[str, str]:
    """Names of the arms of a model's plain paths and strategies, by strategy."""
    names = arm_names([one.arm for one in series])
    own = {
        base: name for (base, settings), name in names.items() if settings == (("model", model),)
    }
    one = {PLAIN: _ONE_PATH, GREEDY: ARM_OF[VoteRule.GREEDY]}
    settings = (("model", model), ("paths", 1))
    known = {name: names[key] for name, arm in one.items() if (key := (arm, settings)) in names}
    return known | own


def _arm(model: EvaluatedModel, base: str, **settings: str | int) -> Arm:
    return Arm(
        base=base,
        settings={"model": model.name, **settings},
        upper_bound=base in {ARM_OF[rule] for rule in BOUNDS},
        seen=model.seen,
    )


def _series(model: EvaluatedModel, votes: Votes) -> list[Series]:
    return [*_vote_series(model, votes), *_syntheses(model), *_last_calls(model)]


def _vote_series(model: EvaluatedModel, votes: Votes) -> Iterator[Series]:
    for rule in votes.rules:
        # A random one of several paths is as accurate as one.
        for paths in votes.counts if rule not in OF_ONE_PATH else [1]:
            yield Series(
                arm=_arm(model, ARM_OF[rule], paths=paths),
                measure="accuracy",
                values=votes.scores(Vote(rule=rule, paths=paths)),
                costs=_greedy_costs(model) if rule is VoteRule.GREEDY else votes.costs(paths),
                seed_names=("pacore", rule.value, paths),
            )


def _greedy_costs(model: EvaluatedModel) -> dict[str, Cost]:
    return {one.id: one.greedy.cost for one in model.problems if one.greedy}


def _syntheses(model: EvaluatedModel) -> Iterator[Series]:
    """Accuracy of each strategy."""
    for name in model.problems[0].outcomes:
        yield Series(
            arm=_arm(model, name),
            measure="accuracy",
            values={one.id: float(bool(one.outcomes[name].right)) for one in model.problems},
            costs={one.id: one.outcomes[name].cost for one in model.problems},
            seed_names=("pacore", name, 0),
        )


def _last_calls(model: EvaluatedModel) -> Iterator[Series]:
    """Correctness of the last calls, by correctness of their references."""
    for name in _own_outcomes(model):
        seen = [one for one in model.problems if one.outcomes[name].extra["references"]]
        wrong = [one for one in seen if not one.outcomes[name].extra["right_references"]]
        found = [one for one in seen if one.outcomes[name].extra["right_references"]]
        measures: dict[str, dict[str, bool | None]] = {
            "emergent": {one.id: one.outcomes[name].right for one in wrong},
            # The last plain path is in no first round, so no reference depends on it.
            "one more path": {one.id: one.plain[-1].right for one in wrong},
            "lost": {one.id: not one.outcomes[name].right for one in found},
        }
        for measure, values in measures.items():
            yield Series(
                arm=_arm(model, name),
                measure=measure,
                values={one: float(bool(value)) for one, value in values.items()},
                is_binomial=True,
            )


def _own_outcomes(model: EvaluatedModel) -> list[str]:
    """Strategies that read paths of their own question."""
    return [name for name in model.problems[0].outcomes if not name.startswith(OTHER)]


def _own_syntheses(model: EvaluatedModel) -> list[Series]:
    own = _own_outcomes(model)
    return [one for one in _syntheses(model) if one.arm.base in own]


def _comparisons(
    models: Sequence[EvaluatedModel], votes: Mapping[str, Votes]
) -> Iterator[_Comparison]:
    """Each strategy of each model with its own votes and with the votes of the others, on each axis."""
    for model in models:
        for voters in (model, *(one for one in models if one is not model)):
            for synthesis in _own_syntheses(model):
                for axis in Axis:
                    yield _comparison(synthesis, axis, voters, votes[voters.name])


def _comparison(synthesis: Series, axis: Axis, voters: EvaluatedModel, votes: Votes) -> _Comparison:
    strategy, model = synthesis.arm.base, str(synthesis.arm.settings["model"])
    limit = axis.tokens(synthesis.costs.values())
    vote = votes.best(axis, limit)
    reference = Series(
        arm=_arm(voters, f"best vote, {axis.name.lower()}", **{"for": strategy, "of": model}),
        measure="accuracy",
        values=votes.scores(vote),
    )
    return _Comparison(
        model=model,
        key=(strategy, axis),
        vote=vote,
        accuracy=votes.accuracy(vote),
        tokens=votes.tokens(axis, vote.paths),
        capped=votes.capped(axis, limit),
        contrast=Contrast(
            candidate=synthesis,
            reference=reference,
            seed_names=("pacore-against", strategy, axis.value),
        ),
    )


def _strongest(compared: Sequence[_Comparison]) -> list[_Comparison]:
    """For each strategy and axis, the comparison with the most accurate vote, the first of equal ones."""
    found: dict[tuple[str, Axis], _Comparison] = {}
    for one in compared:
        if one.key not in found or one.accuracy > found[one.key].accuracy:
            found[one.key] = one
    return [*found.values()]


def _compute(
    models: Sequence[EvaluatedModel], compared: Sequence[_Comparison], study: Study
) -> dict[str, Any]:
    by_name = {one.name: one for one in models}
    pairs = [*zip(compared, study.differences[: len(compared)], strict=True)]
    return {
        "best_votes": {
            difference.reference: {
                "vote": ARM_OF[one.vote.rule],
                "paths": one.vote.paths,
                "tokens": one.tokens,
                "capped": one.capped,
            }
            for one, difference in pairs
        },
        "references": {
            difference.arm: _references(by_name[one.model], one.key[0]) for one, difference in pairs
        },
    }


def _references(model: EvaluatedModel, name: str) -> dict[str, float]:
    extra = [one.outcomes[name].extra for one in model.problems]
    calls = sum(one["later_calls"] for one in extra)
    return {key: sum(one[key] for one in extra) / calls for key in ("shown", "dropped")}


def _overview(first: Sequence[_Comparison], differences: Sequence[Difference]) -> str:
    found = [one.finding for one in differences]
    return (
        f"{first[0].model}: {len(first)} comparisons over all rounds and three costs (drawn tokens, drawn and prompt "
        f"tokens, critical path), {found.count(DifferenceFinding.GAIN)} above the best vote that costs no more, "
        f"{found.count(DifferenceFinding.SIGNIFICANTLY_LOWER)} below it; {sum(one.capped for one in first)} {_CAPPED}."
    )
