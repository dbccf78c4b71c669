"""Lengths of prompts in tokens, and those that a model's context cannot hold, found before anything is drawn."""

import pathlib
from collections.abc import Iterable, Iterator, Sequence

from pipeline_lib.engines.model_config import declared_context
from pipeline_lib.engines.tokens import encode_completion, encode_prompt
from pipeline_lib.errors import BadInputError
from pipeline_lib.records import Problem, Row
from pipeline_lib.sampling.prompts import instruction, render

_TEMPLATE_BYTES = 1024
"""Room for a chat template and its system prompt; longer ones are caught by the engine."""


def check_context(
    problems: Iterable[Problem],
    model: pathlib.Path,
    *,
    max_new_tokens: int,
    examples: Sequence[Problem] = (),
) -> None:
    """Check that prompts, with the tokens to be drawn, fit into the context of the model in a folder.

    Raises:
        BadInputError: one does not; the message names the problem.
    """
    context = declared_context(model)
    if context is None:
        return
    # A token has at least one byte, so short texts need no tokenizer, whose import takes seconds.
    shown = sum(_most_tokens(example) for example in examples)
    room = context - max_new_tokens - shown - _TEMPLATE_BYTES
    suspects = [problem for problem in problems if _most_tokens(problem) > room]
    if suspects:
        _check_exactly(suspects, model, context - max_new_tokens, examples)


def _most_tokens(problem: Problem) -> int:
    return len(f"{instruction(problem)}{problem.solution or ''}".encode())


def _check_exactly(
    problems: Iterable[Problem], model: pathlib.Path, room: int, examples: Sequence[Problem]
) -> None:
    for problem, tokens in prompt_lengths(problems, model, examples=examples):
        if tokens > room:
            raise BadInputError(
                f"problem {problem.id}: its prompt has {tokens} tokens, and the context of {model} leaves "
                f"{room} beside sample.max_new_tokens; lower that or sample.shots, or leave the problem out"
            )


def check_rows(rows: Iterable[Row], model: pathlib.Path) -> None:
    """Check that SFT rows {problem_id, prompt, completion} fit into the context of the model in a folder.

    Raises:
        BadInputError: one does not; the message names the problem.
    """
    context = declared_context(model)
    if context is None:
        return
    suspects = [
        row for row in rows if len(f"{row['prompt']}{row['completion']}".encode()) >= context
    ]
    if not suspects:
        return
    from pipeline_lib.engines.pretrained import load_tokenizer  # noqa: PLC0415 - seconds

    tokenizer = load_tokenizer(str(model))
    for row in suspects:
        prompt = encode_prompt(tokenizer, row["prompt"])
        tokens = len(prompt) + len(encode_completion(tokenizer, row["completion"])) + 1
        if tokens > context:
            raise BadInputError(
                f"problem {row['problem_id']}: with its worked solution it has {tokens} tokens, and the context "
                f"of {model} {context}; leave the problem out, or set bootstrap.format_steps=0"
            )


def prompt_lengths(
    problems: Iterable[Problem], model: pathlib.Path, *, examples: Sequence[Problem] = ()
) -> Iterator[tuple[Problem, int]]:
    """Each problem with the number of tokens of its prompt, ``examples`` included, for the model in a folder."""
    from pipeline_lib.engines.pretrained import chat_format_of, load_tokenizer  # noqa: PLC0415

    tokenizer = load_tokenizer(str(model))
    chat_format = chat_format_of(tokenizer)
    for problem in problems:
        text = render(problem, chat_format, examples=examples)
        yield problem, len(encode_prompt(tokenizer, text))
