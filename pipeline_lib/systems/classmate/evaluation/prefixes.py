"""Prefixes of an evaluation: of each policy's paths at every share, empty ones, and those of other problems."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.records import Group
from pipeline_lib.systems.classmate.cut import Prefix, cut_chain, split_steps
from pipeline_lib.systems.classmate.leaks import Chain, first_leaks
from pipeline_lib.verify.dispatch import Verifier

EMPTY = ""


@dataclass(frozen=True, slots=True, order=True)
class Asked:
    """A prefix that peers continue for a problem."""

    problem_id: str
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPath:
    """A judged path and its prefixes."""

    problem_id: str
    sample: int
    """Index of the path."""
    right: bool
    prefixes: Mapping[float, Prefix]
    """By share of the steps."""


def cut_paths(
    groups: Iterable[Group], params: ClassmateParams, verifier: Verifier
) -> list[CutPath]:
    """The first ``evaluate.paths`` scored paths of each problem, cut at every share of ``keep``."""
    chosen = [
        (group.problem, member)
        for group in groups
        for member in group.scored()[: params.evaluate.paths]
    ]
    chains = [
        Chain(problem=problem, steps=split_steps(member.path.text, params.step))
        for problem, member in chosen
    ]
    return [
        CutPath(
            problem_id=problem.id,
            sample=member.path.index,
            right=bool(member.verdict.strict),
            prefixes={
                share: cut_chain(chain.steps, share=share, first_leak=leak) for share in params.keep
            },
        )
        for (problem, member), chain, leak in zip(
            chosen, chains, first_leaks(chains, verifier), strict=True
        )
    ]


def shuffled(paths: Sequence[CutPath]) -> list[CutPath]:
    """For each problem the first path of the next one, for the last that of the first; none of one problem."""
    first: dict[str, CutPath] = {}
    for path in paths:
        first.setdefault(path.problem_id, path)
    if len(first) < 2:
        return []
    own = [*first.values()]
    return [
        replace(path, problem_id=name)
        for name, path in zip(first, [*own[1:], *own[:1]], strict=True)
    ]


def asked_for(paths: Iterable[CutPath]) -> list[Asked]:
    """Each distinct prefix once, and the empty one of each problem; sorted."""
    paths = list(paths)
    found = {Asked(path.problem_id, EMPTY) for path in paths}
    found |= {
        Asked(path.problem_id, prefix.text) for path in paths for prefix in path.prefixes.values()
    }
    return sorted(found)
