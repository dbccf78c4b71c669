"""Judged paths as Inspect evaluation logs, for `inspect view`.

A problem is a sample, a path is an epoch of it, with both scores and the reason of the verdict. A
path with a failed request or verification is a sample with an error and without a score. The
metrics of the log come from the evaluation and are not recomputed.

Source: the log format of Inspect (UK AI Security Institute), `inspect_ai.log`.
"""

import pathlib
from collections.abc import Mapping
from dataclasses import asdict

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import CORRECT, INCORRECT, Score
from inspect_ai.viewer import ViewerConfig

from pipeline_lib.records import FinishReason, JudgedPath, Problem
from pipeline_lib.store.files import atomic_file, digest_json
from pipeline_lib.study.study import Point
from pipeline_lib.systems.loop.finished_run import SCORES, FinishedRun
from pipeline_lib.systems.loop.reporting.examples import verdict_reason

_MESSAGES: Mapping[str, type[ChatMessageSystem | ChatMessageUser | ChatMessageAssistant]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def write_inspect_log(run: FinishedRun, policy: str, target: pathlib.Path) -> None:
    """Write the log of one policy as a ``.eval`` file, atomically."""
    with atomic_file(target) as temporary:
        write_eval_log(inspect_log(run, policy), temporary, format="eval")


def inspect_log(run: FinishedRun, policy: str) -> EvalLog:
    """All paths and metrics of one policy, as a finished log."""
    dataset, groups, counts = run.params.prepare.dataset, [*run.groups[policy]], run.counts[policy]
    at = run.evaluated_at.isoformat(timespec="seconds")
    origin = groups[0].members[0].path.provenance
    model = f"reasonloop/{policy}-{origin.model}"
    title, *claims = run.study.claims
    identity = digest_json([model, dataset, at, dict(run.lineage)])[:22]
    usage = _usage(counts.prompt_tokens, counts.completion_tokens)
    return EvalLog(
        status="success",
        eval=EvalSpec(
            eval_id=f"eval-{identity}",
            run_id=f"run-{identity}",
            task_id=f"task-{identity}",
            created=at,
            task=f"{dataset}_{policy}",
            dataset=EvalDataset(
                name=dataset,
                samples=len(groups),
                sample_ids=[group.problem.id for group in groups],
                shuffled=False,
            ),
            model=model,
            model_generate_config=GenerateConfig(
                temperature=origin.temperature,
                top_p=origin.top_p,
                max_tokens=origin.max_new_tokens,
            ),
            config=EvalConfig(epochs=max(len(group.members) for group in groups)),
            metadata={"finding": title, "in words": " ".join(claims), **run.lineage},
            # Untrusted content: no Markdown (10*10=100 would lose its signs), no images.
            viewer=ViewerConfig(trust_content=False),
        ),
        results=EvalResults(
            total_samples=counts.paths,
            completed_samples=counts.paths - counts.unscored,
            # pass@k with the bounds of its interval over problems, by score.
            scores=[
                EvalScore(
                    name=name,
                    scorer=name,
                    scored_samples=counts.paths - counts.unscored,
                    unscored_samples=counts.unscored,
                    metrics={
                        metric: EvalMetric(name=metric, value=value)
                        for one in points
                        for metric, value in _bounds(one).items()
                    },
                    metadata={"interval_level": run.study.level, "problems": points[0].n},
                )
                for name, points in run.points(policy).items()
            ],
        ),
        # Without both times the viewer shows NaN as the duration.
        stats=EvalStats(started_at=at, completed_at=at, model_usage={model: usage}),
        samples=[
            _sample(model, group.problem, member) for group in groups for member in group.members
        ],
    )


def _bounds(point: Point) -> dict[str, float]:
    # Short names, because the viewer truncates them.
    k = point.measure.removeprefix("pass@")
    return {point.measure: point.value, f"low@{k}": point.low, f"high@{k}": point.high}


def _sample(model: str, problem: Problem, member: JudgedPath) -> EvalSample:
    path, verdict = member.path, member.verdict
    asked: list[ChatMessage] = [
        _MESSAGES[role](id=f"{path.id}-question-{number}", content=_unicode(content))
        for number, (role, content) in enumerate(problem.turns or (("user", problem.question),))
    ]
    answer = ChatMessageAssistant(
        id=f"{path.id}-answer", content=_unicode(path.text), model=model, source="generate"
    )
    usage = _usage(path.prompt_tokens, path.completion_tokens)
    return EvalSample(
        id=problem.id,
        epoch=path.index + 1,
        uuid=digest_json([model, path.id])[:22],
        input=_unicode(problem.question),
        target=problem.kind.show_gold(problem.gold),
        messages=[*asked, answer],
        output=ModelOutput(
            model=model,
            choices=[
                ChatCompletionChoice(
                    message=answer,
                    stop_reason="max_tokens"
                    if path.finish_reason is FinishReason.LENGTH
                    else "stop",
                )
            ],
            usage=usage,
            error=path.error,
        ),
        scores=_scores(member),
        model_usage={model: usage},
        error=_failure(member),
        metadata={
            "path": path.id,
            "source": problem.source,
            "kind": problem.kind.name,
            "status": verdict.status.value,
            "rule": verdict.rule,
            "finish_reason": path.finish_reason.value,
            "logprob": path.logprob,
            "columns": dict(problem.columns),
            **asdict(path.provenance),
        },
    )


def _scores(member: JudgedPath) -> dict[str, Score] | None:
    """Both scores with the extracted answer; None for a failed request or verification."""
    verdict = member.verdict
    if verdict.lenient is None:
        return None
    explanation = "; ".join(
        [
            f"verdict: {verdict.status.value}",
            *([f"answer found by the rule {verdict.rule}"] if verdict.rule else []),
            *([found] if (found := verdict_reason(member)) else []),
        ]
    )
    return {
        name: Score(
            value=CORRECT if getattr(verdict, name) else INCORRECT,
            answer=_unicode(verdict.extracted) if verdict.extracted is not None else None,
            explanation=_unicode(explanation),
        )
        for name in SCORES
    }


def _failure(member: JudgedPath) -> EvalError | None:
    if member.verdict.lenient is not None:
        return None
    message = member.path.error or member.verdict.detail or member.verdict.status.value
    return EvalError(message=message, traceback=message, traceback_ansi=message)


def _usage(prompt_tokens: int, completion_tokens: int) -> ModelUsage:
    return ModelUsage(
        input_tokens=prompt_tokens,
        output_tokens=completion_tokens,
        total_tokens=prompt_tokens + completion_tokens,
    )


def _unicode(text: str) -> str:
    """Escape lone surrogates, which JSON readers reject."""
    return text.encode("utf-8", "backslashreplace").decode()
