"""The task of a model: by the style of its record."""

import functools
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline_lib.engines.pretrained import chat_format_of, load_tokenizer
from pipeline_lib.engines.tokens import decode_completion, encode_completion
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.apr.countdown.grammar import CountdownGrammar
from pipeline_lib.systems.apr.countdown.task import CountdownTask
from pipeline_lib.systems.apr.model_record import RECORD_NAME, ThreadModelRecord, read_record
from pipeline_lib.systems.apr.task import ThreadTask
from pipeline_lib.systems.apr.threads import TextTokens, ThreadGrammar
from pipeline_lib.systems.apr.words.grammars import TagGrammar, pointer_grammar
from pipeline_lib.systems.apr.words.parts import trace_rows
from pipeline_lib.systems.apr.words.task import WordsTask
from pipeline_lib.systems.apr.words.texts import ANSWER, TURN, encode_context, wire_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from pipeline_lib.params.apr import PartsParams

_UNTRAINED_WINDOW = 4096
"""Tokens of a sequence of a model that was not trained."""


def task_of(
    record: ThreadModelRecord,
    tokenizer: "PreTrainedTokenizerBase",
    verify: VerifyParams,
    grammar: ThreadGrammar | Mapping[str, str] | None = None,
) -> ThreadTask:
    """The task of a model with ``record``; ``grammar`` takes the place of a language model's own.

    A grammar of the user's, or fields of `PointerGrammar`, is told of in the user's prompts, if at all.
    """
    if record.style in {"compact", "published"}:
        return CountdownTask(
            grammar=CountdownGrammar(style="compact" if record.style == "compact" else "published"),
            tokens=TextTokens.of(tokenizer),
            is_bare=(record.kind, record.style) == ("serial", "published"),
        )
    task = words_task(record, tokenizer, verify)
    if isinstance(grammar, Mapping):
        grammar = pointer_grammar(grammar)
    return task if grammar is None else replace(task, grammar=grammar, is_trained=True)


def words_task(
    record: ThreadModelRecord, tokenizer: "PreTrainedTokenizerBase", verify: VerifyParams
) -> WordsTask:
    """The task of a language model."""
    fields = record.model_dump(include={"whole_question", "child_examples"})
    pointers = pointer_grammar({**fields, **record.grammar})
    is_told = record.style == "tags"
    return WordsTask(
        grammar=TagGrammar(shares_prefix=True) if is_told else pointers,
        tokens=TextTokens(
            encode=functools.partial(encode_context, tokenizer),
            count=lambda text: len(encode_completion(tokenizer, text)),
            decode=functools.partial(decode_completion, tokenizer),
        ),
        wire=wire_of(chat_format_of(tokenizer)),
        verify=verify,
        examples=record.examples,
        is_trained=not is_told,
    )


def trained_task(model: pathlib.Path, verify: VerifyParams) -> WordsTask | None:
    """The task of a language model that was trained on threads; None of any other model.

    Raises:
        BadInputError: the model has learned searches of Countdown, or its record is damaged.
    """
    if not (model / RECORD_NAME).is_file():
        return None
    record = read_record(model)
    if record.num_numbers is not None:
        raise BadInputError(
            f"{model}: has learned searches of {record.num_numbers} numbers, no questions in words; see `reasonloop apr "
            "trace`"
        )
    return words_task(record, load_tokenizer(str(model)), verify)


def record_of(
    model: pathlib.Path, examples: tuple[str, str] | None, *, most_tokens: int
) -> ThreadModelRecord:
    """The record of a folder or hub id; of a language model without one, a record with worked ``examples``, or of tags.

    ``most_tokens`` bounds each draw of a model without a record.

    Raises:
        BadInputError: the folder holds no model, or its record is damaged.
    """
    is_other_folder = model.is_dir() and not (model / "config.json").is_file()
    if (model / RECORD_NAME).is_file() or is_other_folder:
        return read_record(model)
    turns, child_turns = examples or ("", "")
    return ThreadModelRecord(
        kind="parallel",
        style="parts" if examples else "tags",
        window=_UNTRAINED_WINDOW,
        most_tokens=most_tokens,
        conditions=("",),
        examples=turns,
        child_examples=child_turns,
    )


def worked_examples(problems: Sequence[Problem], params: "PartsParams") -> tuple[str, str]:
    """Turns with the traces of ``problems`` before a question, and with one child of each before a part."""
    turns = child_turns = ""
    for place, problem in enumerate(problems):
        rows = [*trace_rows(problem, "parallel", params.model_copy(update={"facts": 0}))]
        last, child = rows[-1], rows[1 + place]
        question, _, answer = last["prefix"].partition(ANSWER)
        turns += f"{question}{TURN}{answer}{last['output']}{TURN}"
        child_turns += f"{child['prefix'].removesuffix(ANSWER)}{TURN}{child['output']}{TURN}"
    return turns, child_turns
