"""`reasonloop data check`: the content of a data set on one screen."""

import statistics
from collections import Counter
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from flows.cli.options import DEFAULT_PARAMS, ParamsOptions
from flows.run.terminal import console, say
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import LINES
from pipeline_lib.problems.splits import split_notes
from pipeline_lib.store.workspace import SPLITS
from pipeline_lib.systems.loop.data_check import DataCheck, check_data
from pipeline_lib.terminal_text import one_line

_PROMPTS = 3
_PROMPT_LINES = 6
_LINE_CHARACTERS = 120


def check(
    source: Annotated[
        str | None,
        Parameter(help="A file, folder or hub id; default: prepare.source of the params."),
    ] = None,
    /,
    *,
    dataset: Annotated[
        str | None,
        Parameter(help="Form of SOURCE; default: lines, without SOURCE prepare.dataset."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        Parameter(help="A model's folder or hub id: its chat format, and lengths in tokens."),
    ] = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Show splits, kinds, prompts, lengths and overlap of a data set, as the stage `prepare` would draw it.

    Rows that cannot be read, golds that no answer can be judged by, and train problems that are test problems end it
    with exit code 2 and the place of each.

    **Examples:**

        reasonloop data check mine.csv --set prepare.columns.question=task --set prepare.columns.answer=result
        reasonloop data check openai/gsm8k:main --tokenizer models/smollm2
        reasonloop data check --profile gsm8k
    """
    if source is not None and dataset is None:
        dataset = LINES
    loaded = params.load({"prepare.source": source, "prepare.dataset": dataset})
    found = check_data(loaded.prepare, seed=loaded.seed, prompts=_PROMPTS, tokenizer=tokenizer)
    _print(found)
    if found.unusable:
        raise BadInputError(" | ".join(found.unusable))


def _print(found: DataCheck) -> None:
    report = found.splits.report
    table = Table("split", "rows", "drawn", "kinds", box=None)
    for split in dict.fromkeys((*found.loaded, *SPLITS)):
        kinds = Counter(one.kind.name for one in found.loaded.get(split, ()))
        named = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
        table.add_row(split, str(kinds.total()), str(report.drawn.get(split, "")), named)
    console.print(table, markup=False)
    for note in split_notes(asdict(report)).values():
        say(note)
    overlap = report.overlap
    columns = {name for some in found.loaded.values() for one in some for name in one.columns}
    for name, text in {
        "further columns": ", ".join(sorted(columns)) or "none",
        "repeated questions": str(report.duplicates),
        "golds that cannot be used": str(len(report.unusable_golds)),
        f"test questions that share {overlap.ngram_words} words with training questions": (
            f"{overlap.touched_test} of {overlap.num_test}"
            + "".join(f"; {one['test_id']} with {one['train_id']}" for one in overlap.samples[:1])
        ),
        **{
            unit: f"{values[0]} to {values[-1]}, median {statistics.median_low(values)}"
            for unit, values in found.lengths.items()
        },
    }.items():
        say(f"{name}: {text}")
    for number, prompt in enumerate(found.prompts, start=1):
        lines = prompt.splitlines()
        say(f"\nprompt {number} of {len(found.prompts)}:")
        for line in lines[:_PROMPT_LINES]:
            say(f"  {one_line(line, most=_LINE_CHARACTERS)}")
        if len(lines) > _PROMPT_LINES:
            say(f"  ... {len(lines) - _PROMPT_LINES} more lines")
