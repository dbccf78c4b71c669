"""`reasonloop pacore status` and `fetch`; batches that are handed over to a master, and its params."""

import pathlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import LinesFile, ParamsOptions
from flows.cli.progress import progress_bar
from flows.ray.pacore_master import Master
from flows.run.terminal import say
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import check_output, write_text
from pipeline_lib.systems.pacore.batch import SolvedFile, check_batch

_POLL_S = 0.5
MasterOption = Annotated[str, Parameter(help="HOST:PORT of `pacore master`.")]


@contextmanager
def joined(address: str) -> Iterator[Master]:
    """A connection to a master; BadInputError if it does not answer."""
    master = Master.parse(address)
    master.check()
    master.use_variables()
    from flows.ray.workers import connected  # noqa: PLC0415 - it imports Ray

    with connected(master):
        yield master


def load_handed(options: ParamsOptions, given: Mapping[str, object]) -> Params:
    """As ``options.load``, with the params of the joined master in place of a params file that is not given."""
    from flows.ray.question_queue import handed_params  # noqa: PLC0415 - it imports Ray

    text = None if options.params_file else handed_params()
    if text is None:
        return options.load(given)
    with tempfile.TemporaryDirectory(prefix="reasonloop-") as folder:
        path = pathlib.Path(folder) / "params-of-the-master.yaml"
        path.write_text(text, "utf-8")
        return replace(options, params_file=path).load(given)


def hand_over(
    source: pathlib.Path,
    output: pathlib.Path,
    models: tuple[str, ...],
    master: str,
    options: ParamsOptions,
    *,
    leaves: bool,
) -> SolvedFile | None:
    """Give a file of questions to a master; follow it and write the answers, or leave at once: None.

    Raises:
        BadInputError: an unusable source, output or option, or the batch cannot be drawn with them.
        ReasonloopError: the batch has failed for another reason.
    """
    with joined(master):
        from flows.ray import question_queue  # noqa: PLC0415 - it imports Ray

        params = load_handed(options, {})
        check_batch(source, output, params)
        name = question_queue.submit(source, models, params)
        say(f"batch {name}: reasonloop pacore fetch {name} --master {master} --output {output}")
        if leaves:
            return None
        with progress_bar("pacore") as moved:
            state = question_queue.state_of(name)
            while state.solved is None and state.failure is None:
                moved(state.answered, state.total)
                time.sleep(_POLL_S)
                state = question_queue.state_of(name)
        if state.solved is None:
            failed = BadInputError if state.is_input else ReasonloopError
            raise failed(f"batch {name}: {state.failure}")
        write_text(output, question_queue.fetch(name))
    counts = ", ".join(f"{calls} by {node}" for node, calls in sorted(state.calls.items()))
    say(f"calls of workers: {counts or 'none'}; {state.lost_calls} lost and sent again")
    return state.solved


def status(*, master: MasterOption) -> None:
    """Show the batches of a master: questions answered, and what is missing.

    **Example:**

        reasonloop pacore status --master 127.0.0.1:6400
    """
    with joined(master):
        from flows.ray.question_queue import states  # noqa: PLC0415 - it imports Ray

        for line in [one.line for one in states()] or ["no batches"]:
            say(line)


def fetch(
    batch: Annotated[str, Parameter(help="Name of the batch, as `pacore batch` printed it.")],
    /,
    *,
    master: MasterOption,
    output: LinesFile,
) -> None:
    """Write the answers of a batch so far, in the order of its questions; no worker is needed.

    **Example:**

        reasonloop pacore fetch 0c5e36e0a1b2 --master 127.0.0.1:6400 --output answers.jsonl
    """
    check_output(output)
    with joined(master):
        from flows.ray import question_queue  # noqa: PLC0415 - it imports Ray

        state = question_queue.state_of(batch)
        write_text(output, question_queue.fetch(batch))
    say(f"{state.line}\nanswers: {output}")
