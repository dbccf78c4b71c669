"""What a data set holds, and what of it cannot be used, before anything is trained on it."""

import functools
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import PrepareParams
from pipeline_lib.problems.loading import GENERATED, load_splits, source_of
from pipeline_lib.problems.splits import Splits, make_splits
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.store.workspace import SPLITS
from pipeline_lib.systems.loop.context import prompt_lengths
from pipeline_lib.verify.golds import open_gold_check

_MOST_FAULTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCheck:
    """The content of a data set."""

    loaded: Mapping[str, Sequence[Problem]]
    """Problems by split of the source, or by the splits that are drawn of a generated data set."""
    splits: Splits
    unusable: Sequence[str]
    """Place, and the reason why no answer can be judged by the gold there."""
    prompts: Sequence[str]
    """Of the first problems."""
    lengths: Mapping[str, Sequence[int]]
    """Of all problems, in order of size, by unit."""


def check_data(
    params: PrepareParams, *, seed: int, prompts: int, tokenizer: str | None = None
) -> DataCheck:
    """Read the data set and draw its splits as the stage `prepare` does.

    With the ``tokenizer`` of a model, a folder or hub id, prompts are in its chat format, and their lengths are known in
    tokens.

    Raises:
        BadInputError: as `make_splits`, together with the golds that cannot be used.
    """
    loaded: dict[str, Sequence[Problem]] = {}
    if params.dataset not in GENERATED:
        source = source_of(params.dataset, params.source)
        loaded |= load_splits(params.dataset, source, params)
    with open_gold_check() as gold_problem:
        reason_of = functools.cache(gold_problem)
        unusable = [
            f"{one.where}: the gold {one.kind.show_gold(one.gold)!r} cannot be used ({reason}); correct or remove the row"
            for problems in loaded.values()
            for one in problems
            if (reason := reason_of(one.gold)) is not None
        ]
        try:
            splits = make_splits(params, seed=seed, gold_problem=reason_of)
        except BadInputError as error:
            raise BadInputError(" | ".join([*unusable[:_MOST_FAULTS], str(error)])) from error
    loaded = loaded or {split: getattr(splits, split) for split in SPLITS}
    every = [one for problems in loaded.values() for one in problems]
    lengths = {
        "characters": [len(one.question) for one in every],
        "words": [len(one.question.split()) for one in every],
    }
    chat_format = None
    if tokenizer is not None:
        from pipeline_lib.engines.pretrained import load_chat_format  # noqa: PLC0415 - transformers is slow

        chat_format = load_chat_format(tokenizer)
        counted = prompt_lengths(every, pathlib.Path(tokenizer))
        lengths["tokens of prompts"] = [tokens for _, tokens in counted]
    return DataCheck(
        loaded=loaded,
        splits=splits,
        unusable=unusable[:_MOST_FAULTS],
        prompts=[render(one, chat_format) for one in splits.train[:prompts]],
        lengths={unit: sorted(values) for unit, values in lengths.items()},
    )
