"""Rollouts of Countdown prompts at an OpenAI-compatible server, as lists of plain dictionaries."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.running_engine import attach
from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.grammar import CountdownGrammar, read_problem
from pipeline_lib.systems.apr.countdown.task import judge_rollout
from pipeline_lib.systems.apr.runtime import Runtime
from pipeline_lib.systems.apr.scheduler import draw_rollouts
from pipeline_lib.systems.apr.task import Row, rollout_row
from pipeline_lib.systems.apr.threads import Root, TextTokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def rollout_fun(  # noqa: PLR0913 - the published signature
    server_url: str,
    prefix_list: Sequence[str],
    bos_token: str,
    temperature: float = 0.5,
    max_workers: int = 32,
    condition_prefix: str | None = None,
    *,
    tokenizer: "PreTrainedTokenizerBase | None" = None,
    window: int | None = None,
    max_tokens: int = 4096,
    seed: int = 0,
) -> list[Row]:
    """Rollouts of Countdown parents, aligned with ``prefix_list``. Source: arXiv 2504.15466, released code.

    Args:
        server_url: an OpenAI-compatible server of one model, with the version (``http://host:8000/v1``).
        prefix_list: prompts of parents; equal ones are drawn independently.
        bos_token: precedes each prompt on the wire, and is in no ``prefix`` of the result; if ``tokenizer`` begins
            a text with it, it is there once.
        temperature: of all draws; 0 is greedy.
        max_workers: draws in flight.
        condition_prefix: precedes each prompt of a parent, as in ``Sub Call Budget: 9``; a space follows it.
        tokenizer: the served model's; needed for ``window``, and by servers that take token ids only.
        window: tokens of a sequence with its prompt; None: draws are limited by ``max_tokens`` alone.
        max_tokens: of one draw.
        seed: root of the seeds of all draws.

    Returns:
        One dictionary per prompt: ``seqs``, each with ``prefix``, ``output``, ``role``, ``round`` and ``child``,
        and with ``output_ids`` and ``logprobs`` where they are known; ``is_correct``; ``claim``. Of a failed
        rollout ``seqs`` is empty, and ``error`` gives the reason; ``child_error`` the reason of the first failed
        child.

    Raises:
        BadInputError: a prompt is none of Countdown, or fills the window; the url is none; the server has
            several models.
        ReasonloopError: the server does not answer.
    """
    condition = f"{condition_prefix.rstrip()} " if condition_prefix else ""
    prompts = [condition + prefix for prefix in prefix_list]
    golds = [read_gold(prompt, place=f"prefix_list[{i}]") for i, prompt in enumerate(prompts)]
    roots = make_roots(prompts)
    tokens = None if tokenizer is None else TextTokens.of(tokenizer)
    if window is not None:
        if tokens is None:
            raise BadInputError(f"window={window}: needs the tokenizer of the served model")
        check_room(roots, tokens, wire=bos_token.__add__, window=window)
    with errors_at("server_url or max_workers"):
        serve = ServeParams(engine="url", url=server_url, concurrency=max_workers)
    client = OpenAIModel(
        endpoint=attach(serve, by_chat=False).endpoint,
        serve=serve,
        encode=None if tokens is None else tokens.encode,
    )

    rollouts = draw_rollouts(
        client,
        roots,
        lambda draws: Runtime(
            grammar=CountdownGrammar(),
            draws=draws,
            decoding=Decoding(temperature=temperature, max_new_tokens=max_tokens),
            slots=asyncio.Semaphore(max_workers),
            seed=seed,
            tokens=tokens,
            window=window,
            wire=lambda text: bos_token + text,
        ),
    )
    return [
        rollout_row(one, judge_rollout(one, gold))
        for one, gold in zip(rollouts, golds, strict=True)
    ]


def read_gold(prompt: str, *, place: str) -> CountdownGold:
    """The problem of a parent's prompt.

    Raises:
        BadInputError: it is none, with ``place``.
    """
    gold = read_problem(prompt)
    if gold is None:
        raise BadInputError(
            f"{place}: {prompt[:80]!r} is no prompt of Countdown; expected the line "
            f"{lines.state(10, [2, 5], [])!r}"
        )
    return gold


def make_roots(prompts: Sequence[str]) -> list[Root]:
    """Parents that are named by their prompts; the n-th of equal prompts is sample n, from 0."""
    seen: Counter[str] = Counter()
    roots = []
    for prompt in prompts:
        roots.append(Root(problem_id=prompt, sample=seen[prompt], prompt=prompt))
        seen[prompt] += 1
    return roots


def check_room(
    roots: Sequence[Root],
    tokens: TextTokens,
    *,
    window: int,
    wire: Callable[[str], str] = lambda text: text,
) -> None:
    """Refuse a window that a prompt fills, before anything is drawn.

    Raises:
        BadInputError: it has no room for a token.
    """
    for root in roots:
        if (size := len(tokens.encode(wire(root.prompt)))) >= window:
            raise BadInputError(
                f"window={window}: the prompt of problem {root.problem_id!r} has {size} tokens; "
                "give a larger window"
            )
