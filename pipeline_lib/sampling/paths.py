"""N seeded paths per problem."""

from collections.abc import Sequence
from dataclasses import asdict

from pipeline_lib.engines.chat_model import ChatModel, Completion, Decoding, Request
from pipeline_lib.params.paths import SampleParams
from pipeline_lib.records import Path, Problem, Provenance, Service
from pipeline_lib.sampling.accounting import PATHS, spent_on
from pipeline_lib.sampling.prompts import render, stops, template_digest
from pipeline_lib.seeding import consecutive_seeds

KIND = PATHS


def sample_paths(
    problems: Sequence[Problem],
    model: ChatModel,
    params: SampleParams,
    *,
    seed: int,
    draw: str,
    examples: Sequence[Problem] = (),
) -> list[Path]:
    """Draw ``params.num_paths`` paths per problem, in the order of problems and path indices.

    The seed of a path is derived from the root seed, the name of the draw, the problem and the index.
    Worked ``examples`` are the beginning of every prompt.
    """
    requests = [
        Request(
            prompt=render(problem, model.chat_format, examples=examples),
            seeds=consecutive_seeds(params.num_paths, seed, draw, problem.id),
        )
        for problem in problems
    ]
    decoding = Decoding(
        temperature=params.temperature,
        top_p=params.top_p,
        max_new_tokens=params.max_new_tokens,
        stop=stops(model.chat_format, examples),
    )
    answers = model.complete(requests, decoding)
    templates = {
        kind: template_digest(kind, model.chat_format, examples=examples)
        for kind in {problem.kind for problem in problems}
    }
    return [
        _path(
            problem,
            index,
            completion,
            provenance_of(templates[problem.kind], model, path_seed, decoding),
            keep_tokens=params.keep_tokens,
        )
        for problem, request, completions in zip(problems, requests, answers, strict=True)
        for index, (path_seed, completion) in enumerate(
            zip(request.seeds, completions, strict=True)
        )
    ]


def provenance_of(template: str, model: ChatModel, seed: int, decoding: Decoding) -> Provenance:
    """The record of how a path is drawn: prompt template, model, seed and decoding."""
    return Provenance(
        model=model.identity,
        template=template,
        seed=seed,
        temperature=decoding.temperature,
        top_p=decoding.top_p,
        max_new_tokens=decoding.max_new_tokens,
        adapter=model.adapter,
        engine=model.engine,
    )


def _path(
    problem: Problem,
    index: int,
    completion: Completion,
    provenance: Provenance,
    *,
    keep_tokens: bool,
) -> Path:
    return Path(
        problem_id=problem.id,
        index=index,
        text=completion.text,
        finish_reason=completion.finish_reason,
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        logprob=completion.logprob,
        provenance=provenance,
        error=completion.error,
        token_ids=completion.token_ids if keep_tokens else None,
        token_logprobs=completion.token_logprobs if keep_tokens else None,
        service=Service(
            latency_s=completion.latency_s,
            cached_tokens=completion.cached_tokens,
            opens_request=completion.opens_request,
        ),
    )


def path_counts(paths: Sequence[Path]) -> dict[str, float]:
    """Counts for a shard's manifest: tokens, requests, and failed paths."""
    return {**asdict(spent_on(paths)), "failed": sum(path.error is not None for path in paths)}
