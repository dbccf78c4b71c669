"""`reasonloop classmate probe` and `show`."""

import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators
from rich.table import Table

from flows.cli.options import (
    AT_LEAST_ONE,
    DEFAULT_PARAMS,
    Engine,
    LinesFile,
    ParamsOptions,
    read_named,
)
from flows.cli.progress import progress_bar
from flows.cli.tables import print_claims, print_table
from flows.run.terminal import console, say
from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.params.classmate import ClassmateParams, PeerParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.store.files import check_output

if TYPE_CHECKING:
    from pipeline_lib.systems.classmate.draws import AskedPrefix, DrawRecord


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PeerOptions:
    """Options for the classmates and their engine."""

    classmate: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            help="NAME=MODEL, a Hugging Face folder or hub id, or with --url a name there. Repeatable.",
        ),
    ]
    engine: Annotated[
        Engine | None,
        Parameter(help="Engine of the classmates; default: serve.engine of the params file."),
    ] = None
    url: Annotated[
        str | None,
        Parameter(help="OpenAI-compatible server, as in http://127.0.0.1:8300/v1."),
    ] = None

    def peers(self, serve: ServeParams) -> tuple[PeerParams, ...]:
        """The classmates, with distinct names.

        Raises:
            BadInputError: a value is no NAME=MODEL, a name is given twice, or options contradict.
        """
        if self.url is not None and self.engine not in {None, "url"}:
            raise BadInputError(f"--engine {self.engine} --url {self.url}: give one of them")
        form = "NAME=MODEL, as in small=models/small"
        changes = {} if self.engine is None else {"engine": self.engine}
        if self.url is not None:
            changes = {"engine": "url", "url": self.url}
        named = [read_named(one, form, option="--classmate ") for one in self.classmate]
        with errors_at("--classmate"):
            own = ServeParams.model_validate(serve.model_dump() | changes)
            listed = [{"name": name, "model": model, "serve": own} for name, model in named]
            return ClassmateParams.model_validate(
                {"classmate_model_name_or_path_list": listed}
            ).classmate_model_name_or_path_list


def probe(  # noqa: PLR0913 - one argument per option
    source: Annotated[
        pathlib.Path,
        Parameter(
            help="Chains as JSON lines, as `reasonloop verify` reads them, with `question` where the prompt is in words."
        ),
    ],
    /,
    *,
    peers: PeerOptions,
    output: LinesFile,
    html: Annotated[
        pathlib.Path | None,
        Parameter(help="Page with the curve, the steps by lift and the chains."),
    ] = None,
    samples: Annotated[
        int, Parameter(help="Continuations of each prefix.", validator=AT_LEAST_ONE)
    ] = 8,
    shuffled: Annotated[
        bool,
        Parameter(
            negative="", help="Also continue prefixes of another problem's chain, a control."
        ),
    ] = False,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    r"""Let classmates continue given chains from every number of kept steps; a killed command continues.

    Output lines: `{"id","peers":{NAME:{"kept","success","low","high","lift","failed"}},"leak",
    "continuations"}`, lists by the number of kept steps from 0. Prefixes are uncut; `leak` says which give
    the answer away.

    **Examples:**

        reasonloop classmate probe chains.jsonl --classmate small=models/small --output probe.jsonl --html probe.html
        reasonloop classmate probe chains.jsonl --classmate a=models/a --classmate b=models/b --shuffled --output probe.jsonl
        reasonloop classmate probe chains.jsonl --classmate s=NAME --url http://host:8000/v1 --set serve.tokenizer=models/small --output probe.jsonl
    """
    loaded = params.load()
    given = peers.peers(loaded.serve)
    check_output(output, source=source)
    if html is not None:
        check_output(html, source=source)
        if html.resolve() == output.resolve():
            raise BadInputError(f"--html {html}: is the --output; choose another")
    from pipeline_lib.problems.trained import trained_on  # noqa: PLC0415 - transformers is slow
    from pipeline_lib.study.pages.page import study_tables, write_page  # noqa: PLC0415 - as above
    from pipeline_lib.systems.classmate import probe as of_chains  # noqa: PLC0415 - as above
    from pipeline_lib.systems.classmate import probe_study as of_probe  # noqa: PLC0415 - as above

    chains = of_chains.read_chains(source, step=loaded.classmate.step)
    checked = of_chains.check_peers(given, chains)
    with progress_bar("classmate probe") as moved:
        probed = of_chains.probe_chains(
            chains,
            output,
            loaded,
            samples=samples,
            shuffled=shuffled,
            opening=of_chains.opened_peers(checked, log_folder=output.resolve().parent / "logs"),
            on_progress=moved,
        )
    study = of_probe.probe_study(probed, loaded.evaluate, seed=loaded.seed)
    models = {f"classmate {peer.name}": peer.model for peer in checked}
    problems = list({chain.problem.id: chain.problem for chain in chains}.values())
    study = study.with_claims((*study.claims, *trained_on(models, problems)))
    # Before the tables, whose reader may close the pipe.
    if html is not None:
        write_page(html, study, of_probe.probe_page(probed, study))
    for table in (*study_tables(study), of_probe.lift_table(probed)):
        print_table(table)
    print_claims(study)
    for path in (output, html):
        if path is not None:
            say(str(path))


def show(
    draws: Annotated[
        pathlib.Path,
        Parameter(
            help="Folder of draws: data/classmate/draws of a workspace, or OUTPUT.draws of `train`.",
            validator=validators.Path(exists=True, file_okay=False),
        ),
    ],
    /,
    *,
    step: Annotated[
        int | None,
        Parameter(
            help="Updates before the draw, from 0: line n of training_log.jsonl is --step n-1. Default: the last."
        ),
    ] = None,
    problem: Annotated[
        str | None, Parameter(help="Id of the problem; default: the first of the draw.")
    ] = None,
) -> None:
    """Print prefixes, continuations and scores of a draw of a training with peers.

    **Examples:**

        reasonloop classmate show data/classmate/draws
        reasonloop classmate show data/classmate/draws --step 40 --problem countdown-2.3.5.9-24
    """
    draw = _read_draw(draws, step)
    ids = list(dict.fromkeys(path.problem_id for path in draw.paths))
    if not ids:
        raise BadInputError(f"step {draw.step}: the draw has no paths; give another --step")
    chosen = problem or ids[0]
    if chosen not in ids:
        raise BadInputError(f"--problem {chosen}: is not in this draw; there are {', '.join(ids)}")
    say(f"step {draw.step}, problem {chosen}")
    for name, value in draw.figures.items():
        say(f"  {name} {value:.3f}")
    paths = [path for path in draw.paths if path.problem_id == chosen]
    asked = {one.prefix: one for one in draw.prefixes if one.problem_id == chosen}
    table = Table("path", "prefix", "peer", "continuation", "score", box=None, pad_edge=False)
    count = sum(path.cut == 0 for path in paths)
    for place, path in enumerate(paths):
        numbers = ", ".join(
            f"{name} {'none' if value is None else f'{value:g}'}"
            for name, value in (("base", path.base), ("bonus", path.bonus), ("reward", path.reward))
        )
        table.add_row(str(place % count + 1), path.completion, "", numbers, "")
        for row in _continuation_rows(None if path.prefix is None else asked.get(path.prefix)):
            table.add_row("", *row)
    console.print(table, markup=False)


def _read_draw(folder: pathlib.Path, step: int | None) -> "DrawRecord":
    """A draw of the training that was last written to, whose folder is printed."""
    from pipeline_lib.systems.classmate.draws import draw_files, read_draw  # noqa: PLC0415 - after the help

    folders = sorted({path.parent for path in folder.rglob("step-*.json")})
    trainings = [files for place in folders if (files := dict(draw_files(place)))]
    if not trainings:
        raise BadInputError(f"{folder}: has no draws; give data/classmate/draws of a workspace")
    files = max(trainings, key=lambda own: max(path.stat().st_mtime for path in own.values()))
    if step is not None and step not in files:
        raise BadInputError(f"--step {step}: is not kept; there are {min(files)} to {max(files)}")
    path = files[max(files) if step is None else step]
    draw = read_draw(path)
    say(f"training {path.parent}")
    return draw


def _continuation_rows(asked: "AskedPrefix | None") -> Iterator[tuple[str, str, str, str]]:
    if asked is None:
        return
    for peer, continuations in asked.continuations.items():
        for one in continuations:
            score = one.failure or ("right" if one.right else "wrong")
            yield asked.prefix, peer, one.text, score
