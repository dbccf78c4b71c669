"""`reasonloop sample`, `verify`, `build` and `train`: the loop by hand, on JSON lines."""

import pathlib
from collections import Counter
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from flows.cli.options import (
    AT_LEAST_ONE,
    DEFAULT_PARAMS,
    LinesFile,
    Model,
    ModelFolder,
    ParamsOptions,
    Workers,
)
from flows.cli.progress import progress_bar
from flows.cli.tables import print_counts
from flows.run.admission import check_trackers
from flows.run.terminal import console, say
from pipeline_lib.errors import BudgetReachedError
from pipeline_lib.params.train import Method
from pipeline_lib.systems.loop.by_hand.build import build_file
from pipeline_lib.systems.loop.by_hand.sample import SampledSplit, sample_to_file
from pipeline_lib.verify.lines import LineSummary, verify_lines

_SHOWN_DISAGREEMENTS = 10
_SHOWN_UNSCORED = 20


def sample(
    model: Model,
    /,
    *,
    output: LinesFile,
    num_paths: Annotated[
        int | None, Parameter(help="Paths per problem.", validator=AT_LEAST_ONE)
    ] = None,
    problems: Annotated[
        int | None, Parameter(help="How many problems of the split.", validator=AT_LEAST_ONE)
    ] = None,
    split: Annotated[
        SampledSplit,
        Parameter(
            help="Draw for train problems what a model is trained on, as round 1 of a run does."
        ),
    ] = "test",
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Draw paths for the problems of a data set, as lines that `reasonloop verify` and `build` read.

    **Examples:**

        reasonloop sample models/policy --output paths.jsonl --num-paths 10 --problems 50
        reasonloop sample models/policy --output cache.jsonl --split train
        reasonloop sample models/policy --output paths.jsonl --set serve.engine=vllm
        reasonloop sample NAME --output paths.jsonl --set serve.engine=url --set serve.url=http://host:8000/v1
    """
    given = {"sample.num_paths": num_paths, f"prepare.{split}_problems": problems}
    loaded = params.load(given)
    with progress_bar("sample") as moved:
        sampled = sample_to_file(model, output, loaded, split=split, on_progress=moved)
    say(f"{sampled.num_drawn} problems x {loaded.sample.num_paths} paths: {output}")
    if sampled.note is not None:
        say(sampled.note)
    if sampled.budget_reached:
        raise BudgetReachedError(
            f"{sampled.budget_reached}; {sampled.num_drawn} of {sampled.num_problems} problems are "
            f"in {output}, raise the budget to draw all"
        )


def verify(
    source: Annotated[pathlib.Path, Parameter(help="Answers to judge, as JSON lines.")],
    /,
    *,
    output: LinesFile,
    workers: Workers = 2,
    audit: Annotated[
        bool,
        Parameter(
            negative="", help="Show answers that only the strict score refuses, or that have none."
        ),
    ] = False,
    verifier: Annotated[
        str | None,
        Parameter(help="Your own, FILE.py:function; default: verify.verifier, else by kind."),
    ] = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Judge the answers of a JSON-lines file; one verdict line per input line, in order.

    Input lines: `{"id","kind":"math","gold","text"}`,
    `{"id","kind":"countdown","numbers","target","text"}`,
    `{"id","kind":"code","entry_point","tests","text"}`,
    `{"id","kind":"program","tests":[{"input","output"}],"checker":"tokens","text"}`,
    `{"id","kind":"arc","gold":[[1,2],[3,4]],"text"}` or, for a verifier of your own, `{"id","kind":"own","gold","text"}`
    with any JSON as gold. Output lines:
    `{"id","status","strict","lenient","extracted","rule","score","detail","seconds"}`.

    **Examples:**

        reasonloop verify answers.jsonl --output verdicts.jsonl --workers 2
        reasonloop verify answers.jsonl --output verdicts.jsonl --verifier mine.py:verify
    """
    loaded = params.load({"verify.verifier": verifier})
    with progress_bar("verify") as moved:
        summary = verify_lines(source, output, loaded.verify, workers=workers, on_progress=moved)
    _print_summary(summary)
    if summary.num_labelled:
        _print_agreement(summary)
    if audit:
        _print_audit(summary)
    say(f"verdicts: {output}")


def build(  # noqa: PLR0913 - one argument per option
    source: Annotated[pathlib.Path, Parameter(help="Paths, several per `problem_id`.")],
    /,
    *,
    method: Annotated[Method, Parameter(help="What the data is for.")],
    output: Annotated[
        pathlib.Path, Parameter(help="JSON-lines file to write; a data card is put beside it.")
    ],
    model: Annotated[
        str | None,
        Parameter(help="The model to train: its chat template, if it has one, writes the prompts."),
    ] = None,
    worked_solutions: Annotated[
        bool,
        Parameter(
            negative="",
            help="Add the worked solutions of the data set's bootstrap split to the SFT rows, as a run does.",
        ),
    ] = False,
    workers: Workers = 2,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Judge the paths of a JSON-lines file and build training data from them.

    **Example:**

        reasonloop build paths.jsonl --method dpo --output pairs.jsonl
    """
    loaded = params.load()
    with progress_bar(f"judge {source.name}") as moved:
        counts, num_rows, card = build_file(
            source,
            output,
            method,
            loaded,
            model=model,
            worked_solutions=worked_solutions,
            workers=workers,
            on_progress=moved,
        )
    print_counts(counts)
    say(f"{num_rows} rows: {output}\ndata card: {card}")


def train(
    base: Annotated[str, Parameter(help="A Hugging Face folder or hub id.")],
    rows: Annotated[
        pathlib.Path,
        Parameter(
            help='Rows of `reasonloop build`, or of your own: {"prompt", "completion"} for sft, '
            '{"prompt", "chosen", "rejected"} for dpo, {"problem_id", "prompt", "gold"} for the others.'
        ),
    ],
    /,
    *,
    output: ModelFolder,
    method: Annotated[Method | None, Parameter(help="Default: train.method.")] = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Train a model on rows; an interrupted training resumes.

    Rows that `build` made for grpo, rloo or ppo have SFT rows for a warm start in a file beside them.

    **Examples:**

        reasonloop build paths.jsonl --method sft --output rows.jsonl --model models/base
        reasonloop train models/base rows.jsonl --method sft --output models/policy
    """
    loaded = params.load({"train.method": method})
    check_trackers(loaded.execution)
    from pipeline_lib.systems.loop.by_hand.train import train_on_file  # noqa: PLC0415 - torch is slow

    with progress_bar("train") as moved:
        summary = train_on_file(base, rows, output.resolve(), loaded, progress=moved)
    say(f"model: {output}, {summary.steps} steps, digest {summary.digest[:16]}")
    say("last step: " + ", ".join(f"{name} {value:.3g}" for name, value in summary.last.items()))


def _print_summary(summary: LineSummary) -> None:
    table = Table("status", "lines", box=None, pad_edge=False)
    for status, count in summary.by_status.most_common():
        table.add_row(status, str(count))
    console.print(table)
    if scored := summary.num_scored:
        say(
            f"right: {summary.num_strict} strict ({summary.num_strict / scored:.1%}), "
            f"{summary.num_lenient} lenient ({summary.num_lenient / scored:.1%}) "
            f"of {scored} scored; {summary.num_lines - scored} not scored"
        )
    unscored = Counter({reason: len(ids) for reason, ids in summary.unscored_ids.items()})
    for reason, count in unscored.most_common():
        say(f"not scored: {count}, {reason}")
    if summary.judge_tokens:
        say(f"tokens of the model that judged: {summary.judge_tokens}")


def _print_agreement(summary: LineSummary) -> None:
    num_agree = summary.num_labelled - len(summary.disagreeing_ids)
    say(
        f"labels: lenient score agrees on {num_agree} of {summary.num_labelled} "
        f"({num_agree / summary.num_labelled:.2%}); {summary.num_labelled_wrong_but_right} labelled wrong are right"
    )
    shown = summary.disagreeing_ids[:_SHOWN_DISAGREEMENTS]
    if shown:
        more = len(summary.disagreeing_ids) - len(shown)
        rest = f" and {more} more" if more else ""
        say(f"disagreements: {', '.join(shown)}{rest}")


def _print_audit(summary: LineSummary) -> None:
    for reason, ids in summary.unscored_ids.items():
        say(f"{reason}: {', '.join(ids[:_SHOWN_UNSCORED])}")
    refused = summary.refused_by_rule
    say(f"refused by the strict score alone: {refused.total()} {dict(refused.most_common())}")
    for sample in summary.samples:
        # A terminal cannot show the lone surrogates of model output.
        tail = " ".join(sample["tail"].split()).encode("utf-8", "backslashreplace").decode()
        say(f"  {sample['id']} [{sample['rule']}] ... {tail}")
