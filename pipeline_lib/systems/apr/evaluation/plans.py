"""The rollouts of an evaluation: models, conditions and temperatures, checked before anything is drawn; and their draws."""

import asyncio
import functools
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from typing_extensions import override

from pipeline_lib.engines.chat_model import ChatModel, Decoding
from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.embedded.embedded_engine import shared_engine
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.engines.running_engine import attach
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.records import Problem
from pipeline_lib.store.files import digest_json
from pipeline_lib.store.keys import code_digest
from pipeline_lib.store.shards import split
from pipeline_lib.systems.apr.evaluation.problem_source import ProblemSource, check_fit
from pipeline_lib.systems.apr.model_record import (
    ThreadModelRecord,
    choose_condition,
)
from pipeline_lib.systems.apr.rollouts import check_room
from pipeline_lib.systems.apr.runtime import UNBOUNDED, Runtime
from pipeline_lib.systems.apr.scheduler import draw_rollouts
from pipeline_lib.systems.apr.task import ThreadTask, load_named
from pipeline_lib.systems.apr.tasks import record_of, task_of
from pipeline_lib.systems.apr.threads import Rollout, Root, TextTokens

_DRAWN_BY = ("pipeline_lib.systems.apr.tasks",)
"""Modules that draw and judge; changes of statistics and reports leave rollouts as they are."""


@dataclass(frozen=True, kw_only=True)
class ThreadModel:
    """A model's folder with what is read of it before anything is drawn."""

    folder: pathlib.Path
    record: ThreadModelRecord
    serve: ServeParams | None
    """The server that has it; None: it is drawn in process."""
    verify: VerifyParams
    batch_size: int
    """Sequences decoded together in process."""
    grammar: str | None = None
    """Of a language model, in place of its own, as in ``apr.rl.grammar``."""

    @override
    def __getstate__(self) -> dict[str, Any]:
        """For another process, which reads the model itself."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @functools.cached_property
    def task(self) -> ThreadTask:
        """Prompts, texts and verdicts; BadInputError without a tokenizer."""
        grammar = None if self.grammar is None else load_named(self.grammar, key="apr.rl.grammar")
        return task_of(self.record, load_tokenizer(str(self.folder)), self.verify, grammar)

    @property
    def tokens(self) -> TextTokens:
        """Its tokens; BadInputError without a tokenizer."""
        return self.task.tokens

    @functools.cached_property
    def engine(self) -> ChatModel:
        """In this process or at the server. BadInputError: the server does not serve exactly one model."""
        if self.serve is None:
            return shared_engine(str(self.folder), batch_size=self.batch_size)
        return OpenAIModel(
            endpoint=attach(self.serve, by_chat=False).endpoint,
            serve=self.serve,
            encode=self.tokens.encode,
        )

    def draw(
        self, roots: Sequence[Root], *, temperature: float, seed: int, first_success: bool
    ) -> list[Rollout]:
        """The rollouts of ``roots``, within the model's window.

        Raises:
            BadInputError: the model cannot be read, or the server does not serve exactly one model.
            ReasonloopError: the server does not answer.
        """
        bound = UNBOUNDED if self.serve is None else self.serve.concurrency
        return draw_rollouts(
            self.engine,
            roots,
            lambda draws: Runtime(
                grammar=self.task.grammar,
                draws=draws,
                wire=self.task.wire,
                decoding=Decoding(
                    temperature=temperature,
                    max_new_tokens=self.record.most_tokens or self.record.window,
                ),
                slots=asyncio.Semaphore(bound),
                seed=seed,
                tokens=self.tokens,
                window=self.record.window,
                limits=self.task.limits,
                first_success=first_success,
            ),
            encode=self.tokens.encode,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSetting:
    """A model, the condition of its prompts, and the temperature of its draws."""

    name: str
    kind: str
    """``parallel`` or ``serial``."""
    condition: str
    """Empty without one."""
    temperature: float

    @property
    def label(self) -> str:
        """For titles: ``parallel, Sub Call Budget: 9, T = 0``."""
        named = [self.name, *filter(None, [self.condition])]
        return ", ".join([*named, f"T = {self.temperature:g}"])


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
    """Samples of serial models, which need more of them to draw as many tokens; None: ``samples``."""
    first_success: bool
    serve: ServeParams | None
    """The server of the only model; None: models are drawn in process."""
    evaluate: EvaluateParams
    verify: VerifyParams
    """Of answers in words."""
    grammar: str | None = None
    """Of all language models, in place of their own."""
    grammar_digest: str | None = None
    max_tokens: int = 512
    """Of one draw of a language model that was not trained on threads."""
    seed: int
    provenance: Mapping[str, str | None] = field(default_factory=dict)
    """Of the file of metrics."""
    batch_size: int = 64
    """Sequences decoded together in process."""
    workers: int = 1
    """Processes that draw, each of them at least as many rollouts as are drawn together."""

    @property
    def drawn_together(self) -> int:
        """Rollouts of a piece of work, which is done again unless all have finished.

        So their batches, and with them the rounding, are as in an unbroken evaluation.
        """
        return 2 * self.batch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The rollouts of one model under one condition and temperature."""

    model: ThreadModel
    chosen: ModelSetting
    prompt_condition: str
    """As written before a prompt."""
    problems: Sequence[Problem]
    setting: EvaluationSetting

    @property
    def samples(self) -> int:
        """Rollouts of each problem."""
        if not self.chosen.temperature:
            return 1
        serial = self.setting.serial_samples if self.chosen.kind == "serial" else None
        return serial or self.setting.samples

    @property
    def groups(self) -> Sequence[Sequence[Problem]]:
        """Problems whose rollouts are drawn together."""
        return split(self.problems, max(1, self.setting.drawn_together // self.samples))

    def roots(self, problems: Sequence[Problem]) -> list[Root]:
        """The parents of ``problems``."""
        return [
            Root(
                problem_id=problem.id,
                sample=sample,
                prompt=self.model.task.prompt(problem, self.prompt_condition),
            )
            for problem in problems
            for sample in range(self.samples)
        ]

    def draw(self, problems: Sequence[Problem]) -> list[Rollout]:
        """The rollouts of ``problems``; see `ThreadModel.draw`."""
        return self.model.draw(
            self.roots(problems),
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
                "problems": [problem.row() for problem in self.problems],
                "samples": self.samples,
                "temperature": self.chosen.temperature,
                "first_success": setting.first_success,
                "seed": setting.seed,
                "batch_size": setting.batch_size,
                "url": serve.url if serve else None,
                "grammar": setting.grammar_digest,
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
    record = record_of(folder, source.examples, most_tokens=setting.max_tokens)
    check_fit(folder, record, source.problems, style=source.style)
    model = ThreadModel(
        folder=folder,
        record=record,
        serve=setting.serve,
        verify=setting.verify,
        batch_size=setting.batch_size,
        grammar=setting.grammar,
    )
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
        check_room(
            plan.roots(source.problems), model.tokens, window=record.window, wire=model.task.wire
        )
    return plans
