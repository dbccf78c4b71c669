"""Rivals of a synthesis: paths that try until they are right, one, or several at once of which the first that ends counts.

A path is cut at the critical path of the synthesis, or not at all. Several at once all stop when the first ends, and
are as many as draw no more tokens than the synthesis.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pipeline_lib.study.attempts import Cost
from pipeline_lib.study.pages.wording import arm_in_words, percent
from pipeline_lib.study.selection import BestOf, CandidatePath, mean_choice
from pipeline_lib.study.study import Arm, Contrast, Difference, Series
from pipeline_lib.systems.pacore.trials import GREEDY, PLAIN, JudgedProblem

MODEL = "retries"
"""Name of the model in a study."""


class Rival(StrEnum):
    """The values are names of seeds."""

    FREE = "serial retry"
    CUT = "serial retry, cut"
    PARALLEL = "parallel retry, cut"
    FIRST = "parallel retry"


ATTEMPT_ARMS = {PLAIN: Rival.FREE.value, GREEDY: f"{Rival.FREE.value}, greedy"}
"""By strategy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Paths of the policy that retries, on all problems."""

    problems: Sequence[JudgedProblem]

    def contrasts(self, synthesis: Series) -> Iterator[Contrast]:
        """The synthesis minus each rival, in the order of `Rival`."""
        costs = synthesis.costs.values()
        limit = math.ceil(np.mean([one.critical for one in costs]))
        drawn = float(np.mean([one.drawn for one in costs]))
        chosen = {
            Rival.FREE: (1, math.inf),
            Rival.CUT: (1, limit),
            Rival.PARALLEL: (self._most(drawn, limit), limit),
            Rival.FIRST: (self._most(drawn, math.inf), math.inf),
        }
        for rival, (count, longest) in chosen.items():
            yield Contrast(
                candidate=synthesis,
                reference=self._series(rival, count, longest, synthesis.arm),
                seed_names=("pacore-retries", synthesis.arm.base, rival.value),
            )

    def _most(self, drawn: float, limit: float) -> int:
        """The largest number of paths that draws no more, at least one and at most all."""
        most = min(len(one.plain) for one in self.problems)
        fitting = [
            count
            for count in range(1, most + 1)
            if np.mean([_scored(one, count, limit)[1].drawn for one in self.problems]) <= drawn
        ]
        return max(fitting, default=1)

    def _series(self, rival: Rival, count: int, limit: float, against: Arm) -> Series:
        scored = {one.id: _scored(one, count, limit) for one in self.problems}
        of = {"for": against.base, "of": against.settings["model"]}
        settings = {} if rival is Rival.FREE else {"paths": count, **of}
        if limit < math.inf:
            settings["tokens"] = limit
        return Series(
            arm=Arm(base=rival.value.partition(",")[0], settings={"model": MODEL, **settings}),
            measure="accuracy",
            values={name: score for name, (score, _) in scored.items()},
            costs={name: cost for name, (_, cost) in scored.items()},
        )


def _scored(problem: JudgedProblem, count: int, limit: float) -> tuple[float, Cost]:
    """Exact means over all choices of ``count`` paths, of which the shortest counts if it ends within ``limit``."""
    chances = mean_choice(BestOf(_shortness), problem.candidates, count, max_subsets=1, seed=0)
    ends = [min(one.tokens, limit) for one in problem.candidates]
    score = sum(
        chance
        for chance, path, judged in zip(chances, problem.candidates, problem.plain, strict=True)
        if judged.right and path.tokens <= limit
    )
    end = sum(chance * tokens for chance, tokens in zip(chances, ends, strict=True))
    cost = Cost(drawn=count * end, prompt=problem.prompt_of(count), critical=end, longest=end)
    return score, cost


def _shortness(path: CandidatePath) -> float:
    return -path.tokens


def retry_claim(contrasts: Sequence[Contrast], differences: Sequence[Difference]) -> str:
    """One sentence on accuracy, critical path and drawn tokens; both are of `Retries.contrasts` for one synthesis."""
    free, cut, parallel, first = differences
    own, alone = (
        float(np.mean([one.drawn for one in side.costs.values()]))
        for side in (contrasts[0].candidate, contrasts[0].reference)
    )
    settings, uncut = (one.reference.arm.settings for one in contrasts[2:])
    mean = np.mean([one.critical for one in contrasts[3].reference.costs.values()])
    return (
        f"At a critical path of {settings['tokens']} tokens {arm_in_words(free.arm)} has {percent(free.of_arm)}, one "
        f"serial retry {percent(cut.of_reference)}, {settings['paths']} parallel retries, which draw no more tokens, "
        f"{percent(parallel.of_reference)}. Without that limit {uncut['paths']} of no more drawn tokens have "
        f"{percent(first.of_reference)} with a mean critical path of {mean:.0f}, and one serial retry "
        f"{percent(free.of_reference)} with {alone:.0f} drawn tokens instead of {own:.0f}."
    )
