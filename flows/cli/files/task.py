"""`reasonloop task`: a task of one's own in one file, begun and checked."""

import importlib.resources
import pathlib
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from flows.cli.options import DEFAULT_PARAMS, ParamsOptions
from flows.run.terminal import console, say
from pipeline_lib import defaults
from pipeline_lib.errors import BadInputError
from pipeline_lib.store.files import check_output, write_text
from pipeline_lib.terminal_text import one_line

_SHOWN = 20
_CHARACTERS = 60


def new(
    name: Annotated[str, Parameter(help="Name of the task; the file is NAME.py.")],
    /,
) -> None:
    """Write a file with problems, prompt, verifier, reward and checks of a small task, to be changed into yours.

    **Example:**

        reasonloop task new palindromes
        reasonloop task check palindromes.py
        reasonloop run --task palindromes.py --profile quickstart --workspace trial
    """
    if not name.isidentifier():
        raise BadInputError(f"task {name!r}: expected a name of Python, as in palindromes")
    file = pathlib.Path(f"{name}.py")
    check_output(file)
    write_text(file, importlib.resources.files(defaults).joinpath("task.py.txt").read_text("utf-8"))
    say(f"{file}: written; next: reasonloop task check {file}")


def check(
    file: Annotated[str, Parameter(help="A file, an installed module or an entry point.")],
    /,
    *,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Read the problems of a task, and judge texts that are known to be right or wrong by its verifier.

    The texts are of its function `validate`; without one, worked solutions must be right and empty texts wrong. A text
    that is judged otherwise, or not at all, ends it with exit code 2.

    **Example:**

        reasonloop task check palindromes.py
    """
    from pipeline_lib.systems.loop.task_check import check_task  # noqa: PLC0415 - pyarrow is slow

    loaded = params.load({"prepare.dataset": file})
    found = check_task(loaded)
    table = Table("problem", "text", "expected", "verdict", "detail")
    for one in found.trials[:_SHOWN]:
        shown = one_line(repr(one.text), most=_CHARACTERS)
        expected = "right" if one.is_right else "wrong"
        table.add_row(
            one.problem.id, shown, expected, one.verdict.status.value, one.verdict.detail or ""
        )
    console.print(table)
    counts = ", ".join(f"{count} {split}" for split, count in found.counts.items())
    say(
        f"{file}: {counts} problems; {len(found.trials)} texts judged, {len(found.faults)} not as expected"
    )
    if found.faults:
        raise BadInputError(" | ".join(found.faults[:_SHOWN]))
