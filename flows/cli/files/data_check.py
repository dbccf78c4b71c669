"""`reasonloop data check`: the content of a data set on one screen."""

import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median_low
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from flows.cli.options import DEFAULT_PARAMS, ParamsOptions
from flows.run.terminal import console, say
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import LINES
from pipeline_lib.problems.loading import GENERATED, is_data_set, load_splits, source_of
from pipeline_lib.problems.splits import Splits, split_notes
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.splits import checked_splits
from pipeline_lib.store.workspace import SPLITS
from pipeline_lib.systems.loop.context import prompt_lengths

_PROMPTS = 3
_PROMPT_CHARACTERS = 600
_MOST_FAULTS = 20


def check(
    source: Annotated[
        str | None,
        Parameter(help="A file, folder or hub id of lines; default: the data set of the params."),
    ] = None,
    /,
    *,
    tokenizer: Annotated[
        str | None,
        Parameter(help="A model's folder or hub id: its chat format, and lengths in tokens."),
    ] = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Show splits, kinds, overlap, lengths and prompts of a data set, as the stage `prepare` would draw it.

    Rows that cannot be read, golds that no answer can be judged by, and train problems that are test problems end it
    with exit code 2 and the place of each.

    **Examples:**

        reasonloop data check mine.csv --set prepare.columns.question=task --set prepare.columns.answer=result
        reasonloop data check openai/gsm8k:main --tokenizer models/smollm2
        reasonloop data check --set prepare.dataset=math500
    """
    given = {} if source is None else {"prepare.source": source, "prepare.dataset": LINES}
    loaded = params.load(given)
    data = loaded.prepare
    rows: dict[str, list[Problem]] = {}
    if data.dataset not in GENERATED and is_data_set(data.dataset):
        rows = load_splits(data.dataset, source_of(data.dataset, data.source), data)
    splits = checked_splits(data, seed=loaded.seed)
    _print_counts(splits, rows or {split: getattr(splits, split) for split in SPLITS})
    _print_prompts(splits.train, tokenizer)
    by_id = {one.id: one for problems in rows.values() for one in problems}
    unusable = [
        f"{by_id[fault['problem_id']].where}: the gold is unusable ({fault['reason']}); correct or remove the row"
        for fault in splits.report.unusable_golds
    ]
    if unusable:
        raise BadInputError(" | ".join(unusable[:_MOST_FAULTS]))


def _print_counts(splits: Splits, loaded: Mapping[str, Sequence[Problem]]) -> None:
    report, overlap = splits.report, splits.report.overlap
    table = Table("split", "rows", "drawn", "kinds", box=None)
    for split in dict.fromkeys((*loaded, *report.drawn)):
        kinds = Counter(one.kind.name for one in loaded.get(split, ()))
        named = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
        table.add_row(split, str(kinds.total()), str(report.drawn.get(split, "")), named)
    console.print(table, markup=False)
    for note in split_notes(asdict(report)).values():
        say(note)
    columns = {name for some in loaded.values() for one in some for name in one.columns}
    first = "".join(f"; {one['test_id']} with {one['train_id']}" for one in overlap.samples[:1])
    say(f"further columns: {', '.join(sorted(columns)) or 'none'}")
    say(
        f"repeated questions: {report.duplicates}; golds that cannot be used: {len(report.unusable_golds)}"
    )
    say(
        f"test questions that share {overlap.ngram_words} words with training questions: {overlap.touched_test} of "
        f"{overlap.num_test}{first}"
    )


def _print_prompts(problems: Sequence[Problem], tokenizer: str | None) -> None:
    """Lengths of questions or, in the chat format of ``tokenizer``, of prompts, and the first prompts."""
    chat_format = None
    lengths = {
        "characters of a train question": [len(one.question) for one in problems],
        "words of a train question": [len(one.question.split()) for one in problems],
    }
    if tokenizer is not None:
        from pipeline_lib.engines.pretrained import load_chat_format  # noqa: PLC0415 - transformers is slow

        chat_format = load_chat_format(tokenizer)
        counted = prompt_lengths(problems, pathlib.Path(tokenizer))
        lengths["tokens of a train prompt"] = [tokens for _, tokens in counted]
    for unit, values in lengths.items():
        say(f"{unit}: {min(values)} to {max(values)}, median {median_low(values)}")
    for problem in problems[:_PROMPTS]:
        say(f"\nprompt: {render(problem, chat_format)[:_PROMPT_CHARACTERS].rstrip()}")
