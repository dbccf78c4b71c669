"""The rollouts of an evaluation: models, conditions and temperatures, checked before anything is drawn."""

import pathlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.store.files import digest_json
from pipeline_lib.store.keys import code_digest
from pipeline_lib.store.shards import split
from pipeline_lib.systems.apr.countdown.data_folder import ProblemLine
from pipeline_lib.systems.apr.evaluation.drawn import ModelSetting
from pipeline_lib.systems.apr.evaluation.open_draws import ThreadModel
from pipeline_lib.systems.apr.evaluation.problem_source import ProblemSource, check_fit, root_prompt
from pipeline_lib.systems.apr.model_record import choose_condition, read_record
from pipeline_lib.systems.apr.rollouts import check_room
from pipeline_lib.systems.apr.runtime import Runtime
from pipeline_lib.systems.apr.threads import Root

_DRAWN_BY = ("pipeline_lib.systems.apr.rollouts", "pipeline_lib.systems.apr.evaluation.open_draws")
"""Modules that draw and judge; changes of statistics and reports leave rollouts as they are."""
_TOGETHER = 128
"""Rollouts that are drawn together, and again if they are not all finished: their batches, and with them
the rounding, are those of an unbroken evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSetting:
    """Conditions, sampling and statistics of an evaluation."""

    children: Sequence[int]
    """Per spawn, the conditions of parallel models, 0: none; empty: the default of `choose_condition`."""
    tokens: Sequence[int]
    """Of a sequence, the conditions of serial models; the same."""
    temperatures: Sequence[float]
    samples: int
    """Rollouts of each problem at temperatures above 0; greedy ones are all equal."""
    serial_samples: int | None = None
    """Those of serial models, which need more of them to draw as many tokens; None: ``samples``."""
    first_success: bool
    serve: ServeParams | None
    """The server of the only model; None: models are drawn in process."""
    evaluate: EvaluateParams
    seed: int
    provenance: Mapping[str, str | None] = field(default_factory=dict)
    """Of the file of metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The rollouts of one model under one condition and temperature."""

    model: ThreadModel
    chosen: ModelSetting
    prompt_condition: str
    """As written before a prompt."""
    problems: Sequence[ProblemLine]
    setting: EvaluationSetting

    @property
    def samples(self) -> int:
        """Rollouts of each problem."""
        if not self.chosen.temperature:
            return 1
        serial = self.setting.serial_samples if self.chosen.kind == "serial" else None
        return serial or self.setting.samples

    @property
    def groups(self) -> Sequence[Sequence[ProblemLine]]:
        """Problems whose rollouts are drawn together."""
        return split(self.problems, max(1, _TOGETHER // self.samples))

    def roots(self, problems: Sequence[ProblemLine]) -> list[Root]:
        """The parents of ``problems``."""
        return [
            Root(
                problem_id=problem.id,
                sample=sample,
                prompt=root_prompt(problem, self.model.record, self.prompt_condition),
            )
            for problem in problems
            for sample in range(self.samples)
        ]

    def open_runtime(self) -> AbstractAsyncContextManager[Runtime]:
        """See `ThreadModel.open_runtime`."""
        return self.model.open_runtime(
            temperature=self.chosen.temperature,
            seed=self.setting.seed,
            first_success=self.setting.first_success,
        )

    @property
    def key(self) -> str:
        """Digest of everything that the rollouts depend on."""
        setting, serve = self.setting, self.setting.serve
        return digest_json(
            {
                # Rows hold verdicts and counts: results of this code.
                "code": [code_digest(module) for module in _DRAWN_BY],
                "model": model_identity(str(self.model.folder)),
                "record": self.model.record.model_dump(mode="json"),
                "condition": self.prompt_condition,
                "problems": [problem.model_dump(mode="json") for problem in self.problems],
                "samples": self.samples,
                "temperature": self.chosen.temperature,
                "first_success": setting.first_success,
                "seed": setting.seed,
                "url": serve.url if serve else None,
            }
        )


def make_plans(
    models: Mapping[str, pathlib.Path], source: ProblemSource, setting: EvaluationSetting
) -> list[Plan]:
    """The rollouts of all models: of each its conditions, of each condition the temperatures.

    Raises:
        BadInputError: unusable models, conditions or problems.
    """
    plans = [
        plan
        for name, folder in models.items()
        for plan in _plans_of_model(name, folder, source, setting)
    ]
    kinds = {plan.chosen.kind for plan in plans}
    for name, kind in (("children", "parallel"), ("tokens", "serial")):
        amounts = ",".join(map(str, getattr(setting, name)))
        if amounts and kind not in kinds:
            raise BadInputError(
                f"{name}={amounts}: is for {kind} models, and none is given; leave it out"
            )
    return plans


def _plans_of_model(
    name: str, folder: pathlib.Path, source: ProblemSource, setting: EvaluationSetting
) -> list[Plan]:
    record = read_record(folder)
    check_fit(folder, record, source.problems, style=source.style)
    model = ThreadModel(folder=folder, record=record, serve=setting.serve)
    amounts = setting.children if record.kind == "parallel" else setting.tokens
    asked: Sequence[int | None] = amounts or [None]
    conditions = [choose_condition(folder, record, amount) for amount in asked]
    plans = [
        Plan(
            model=model,
            chosen=ModelSetting(
                name=name,
                kind=record.kind,
                condition=condition.strip(),
                temperature=temperature,
            ),
            prompt_condition=condition,
            problems=source.problems,
            setting=setting,
        )
        for condition in conditions
        for temperature in setting.temperatures
    ]
    for plan in plans:
        check_room(plan.roots(source.problems), model.tokens, window=record.window)
    return plans
