"""Two evaluations can be compared if they differ in the policy alone.

Problems, seeds, sampling params, engine and verifier must be equal. Templates may differ, since a chat
template belongs to its model.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.publish.promotion.evaluated import Evaluated
from pipeline_lib.records import Path

_SAMPLING: Mapping[str, Callable[[Path], Any]] = {
    "temperature": lambda path: path.provenance.temperature,
    "top_p": lambda path: path.provenance.top_p,
    "max_new_tokens": lambda path: path.provenance.max_new_tokens,
    "engine": lambda path: path.provenance.engine,
}


def require_same_conditions(candidate: Evaluated, reference: Evaluated) -> None:
    """Check that a paired comparison is valid.

    Raises:
        BadInputError: the evaluations differ in more than the policy; the message names the first
            difference.
    """
    found = next(_differences(candidate, reference), None)
    if found is not None:
        raise BadInputError(
            f"{candidate.name} and {reference.name} cannot be compared: {found}; run the candidate "
            "with the params and data of the release, or start another --releases folder"
        )


def same_templates(candidate: Evaluated, reference: Evaluated) -> bool:
    """True if both were asked with the same prompts."""
    mine, other = (
        {path.provenance.template for path in _paths(side).values()}
        for side in (candidate, reference)
    )
    return mine == other


def _differences(candidate: Evaluated, reference: Evaluated) -> Iterator[str]:
    name = reference.name
    asked, asked_before = _questions(candidate), _questions(reference)
    if apart := sorted(asked.keys() ^ asked_before.keys()):
        shared = len(asked.keys() & asked_before.keys())
        yield (
            f"of {len(asked)} test problems only {shared} are among the {len(asked_before)} of {name} "
            f"(first difference: {apart[0]})"
        )
    if changed := [key for key in sorted(asked) if asked[key] != asked_before.get(key)]:
        yield (
            f"the test set has changed: {len(changed)} problems have another question or gold "
            f"(first: {changed[0]})"
        )
    ours, theirs = _paths(candidate), _paths(reference)
    for param, read in _SAMPLING.items():
        mine, other = {read(path) for path in ours.values()}, {read(p) for p in theirs.values()}
        if mine != other:
            yield f"{param} is {_listed(mine)}, of {name} {_listed(other)}"
    if ours.keys() != theirs.keys():
        yield f"{len(ours)} paths were drawn, for {name} {len(theirs)}"
    reseeded = [
        key
        for key in ours.keys() & theirs
        if ours[key].provenance.seed != theirs[key].provenance.seed
    ]
    if reseeded:
        yield f"the seeds of {len(reseeded)} of {len(ours)} paths differ"
    if candidate.verifier != reference.verifier:
        yield (
            f"version {candidate.verifier} of the verifiers judged the candidate, "
            f"version {reference.verifier} {name}"
        )


def _questions(side: Evaluated) -> dict[str, tuple[str, Any]]:
    return {group.problem.id: (group.problem.question, group.problem.gold) for group in side.groups}


def _paths(side: Evaluated) -> dict[tuple[str, int], Path]:
    return {
        (member.path.problem_id, member.path.index): member.path
        for group in side.groups
        for member in group.members
    }


def _listed(values: set[Any]) -> str:
    return " and ".join(sorted(map(str, values)))
