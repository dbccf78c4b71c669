"""Commands over files of paths, one step of the loop each. Heavy imports wait until a command needs them."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from flows.options import AT_LEAST_ONE, ParamsOptions, Workers
from flows.terminal import PlainConsole
from pipeline_lib.params.train import Method

_PARAMS = ParamsOptions()
console = PlainConsole()


def sample(
    model: Annotated[
        str, Parameter(help="A Hugging Face folder or hub id; at a url, the model's name there.")
    ],
    /,
    *,
    output: Annotated[pathlib.Path, Parameter(help="JSON-lines file to write.")],
    num_paths: Annotated[
        int | None, Parameter(help="Paths per problem.", validator=AT_LEAST_ONE)
    ] = None,
    problems: Annotated[
        int | None, Parameter(help="How many test problems.", validator=AT_LEAST_ONE)
    ] = None,
    params: ParamsOptions = _PARAMS,
) -> None:
    """Draw paths for the test problems of a data set, as lines that `reasonloop verify` reads.

    **Examples:**

        reasonloop sample models/policy --output paths.jsonl --num-paths 10 --problems 50
        reasonloop sample models/policy --output paths.jsonl --set serve.engine=vllm
        reasonloop sample NAME --output paths.jsonl --set serve.engine=url --set serve.url=http://host:8000/v1
    """
    more = [f"sample.num_paths={num_paths}"] if num_paths is not None else []
    more += [f"prepare.test_problems={problems}"] if problems is not None else []
    loaded = params.load(*more)
    from flows.commands import sample_to_file  # noqa: PLC0415 - torch takes seconds to import

    sample_to_file(model, output, loaded, console)


def verify(
    source: Annotated[pathlib.Path, Parameter(help="Answers to judge, as JSON lines.")],
    /,
    *,
    output: Annotated[pathlib.Path, Parameter(help="JSON-lines file to write.")],
    workers: Workers = 2,
    audit: Annotated[
        bool, Parameter(negative="", help="Show answers that only the strict score refuses.")
    ] = False,
    params: ParamsOptions = _PARAMS,
) -> None:
    """Judge the answers of a JSON-lines file; one verdict line per input line, in order.

    Input lines: `{"id","kind":"math","gold","text"}`,
    `{"id","kind":"countdown","numbers","target","text"}`,
    `{"id","kind":"code","entry_point","tests","text"}` or
    `{"id","kind":"arc","gold":[[1,2],[3,4]],"text"}`. Output lines:
    `{"id","status","strict","lenient","extracted","rule","seconds"}`.

    **Example:**

        reasonloop verify answers.jsonl --output verdicts.jsonl --workers 2
    """
    loaded = params.load()
    from flows.commands import verify_file  # noqa: PLC0415 - only this command needs it

    verify_file(source, output, loaded.verify, console, workers=workers, audit=audit)


def build(
    source: Annotated[pathlib.Path, Parameter(help="Paths, several per `problem_id`.")],
    /,
    *,
    method: Annotated[Method, Parameter(help="What the data is for.")],
    output: Annotated[
        pathlib.Path, Parameter(help="JSON-lines file to write; a data card is put beside it.")
    ],
    workers: Workers = 2,
    params: ParamsOptions = _PARAMS,
) -> None:
    """Judge the paths of a JSON-lines file and build training data from them.

    **Example:**

        reasonloop build paths.jsonl --method dpo --output pairs.jsonl
    """
    loaded = params.load()
    from flows.commands import build_file  # noqa: PLC0415 - only this command needs it

    build_file(source, output, method, loaded, console, workers=workers)


def evaluate(
    source: Annotated[pathlib.Path, Parameter(help="Paths, several per `problem_id`.")],
    /,
    *,
    against: Annotated[
        pathlib.Path | None, Parameter(help="Paths of another policy for the same problems.")
    ] = None,
    workers: Workers = 2,
    params: ParamsOptions = _PARAMS,
) -> None:
    """Judge the paths of a JSON-lines file and print pass@k with intervals.

    **Example:**

        reasonloop evaluate trained.jsonl --against base.jsonl --set evaluate.ks=[1,4]
    """
    loaded = params.load()
    from flows.commands import evaluate_files  # noqa: PLC0415 - only this command needs it

    evaluate_files(source, against, loaded, console, workers=workers)


PATH_COMMANDS = (sample, verify, build, evaluate)
