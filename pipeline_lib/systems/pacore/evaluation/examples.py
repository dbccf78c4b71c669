"""Examples of the page: the rounds of each strategy with their verdicts."""

from collections.abc import Iterator, Mapping, Sequence

from pipeline_lib.records import Problem
from pipeline_lib.study.pages.page import Example, ShownText, ShownTexts
from pipeline_lib.systems.pacore.evaluation.judging import Verdicts, is_right
from pipeline_lib.systems.pacore.evaluation.trials import PLAIN, Trial, TrialPath

Trials = Mapping[str, Mapping[str, Trial]]
"""By problem and strategy."""


def make_examples(
    problems: Sequence[Problem], models: Mapping[str, tuple[Trials, Verdicts]], *, limit: int
) -> list[Example]:
    """At most ``limit`` problems, evenly spread, with all rounds of each model, by its name."""
    count = min(limit, len(problems))
    chosen = [problems[index * len(problems) // count] for index in range(count)]
    return [
        Example(
            id=problem.id,
            question=problem.question,
            gold=problem.kind.show_gold(problem.gold),
            groups=[
                group
                for model, (trials, verdicts) in models.items()
                for name, trial in trials[problem.id].items()
                if name != PLAIN
                for group in _rounds(trial, verdicts, model if len(models) > 1 else "")
            ],
        )
        for problem in chosen
    ]


def _rounds(trial: Trial, verdicts: Verdicts, model: str) -> Iterator[ShownTexts]:
    for place, paths in enumerate(trial.rounds, start=1):
        yield ShownTexts(
            title=f"{trial.strategy}{model and f' of {model}'}: round {place}",
            texts=[
                _shown(number, path, is_right(trial.problem_id, path, verdicts))
                for number, path in enumerate(paths, start=1)
            ],
        )


def _shown(number: int, path: TrialPath, right: bool | None) -> ShownText:  # noqa: FBT001 - a verdict
    references = ", ".join(str(place + 1) for place in path.references)
    return ShownText(
        text="the call failed" if path.text is None else path.text,
        outcome="discarded" if right is None else "correct" if right else "wrong",
        about=(f"path {number}", *([f"references {references}"] if references else [])),
    )
