"""`reasonloop classmate probe`."""

import pathlib
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter, validators
from pydantic import ValidationError

from flows.cli.options import (
    AT_LEAST_ONE,
    DEFAULT_PARAMS,
    Engine,
    LinesFile,
    ParamsOptions,
    Temperature,
    read_named,
)
from flows.cli.progress import progress_bar
from flows.cli.tables import print_claims, print_table
from flows.run.terminal import say
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.line_fields import line_error
from pipeline_lib.params.classmate import ClassmateParams, PeerParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.store.files import check_output

_DEFAULTS = ClassmateParams()


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
    tokenizer: Annotated[
        str | None,
        Parameter(help="Hugging Face folder or id with the tokenizer of the model at --url."),
    ] = None

    def peers(self, serve: ServeParams) -> tuple[PeerParams, ...]:
        """The classmates, with distinct names.

        Raises:
            BadInputError: a value is no NAME=MODEL, a name is given twice, or options contradict.
        """
        if self.url is not None and self.engine not in {None, "url"}:
            raise BadInputError(f"--engine {self.engine} --url {self.url}: give one of them")
        form = "NAME=MODEL, as in small=models/small"
        given = {"engine": self.engine, "tokenizer": self.tokenizer}
        if self.url is not None:
            given |= {"engine": "url", "url": self.url}
        changes = {name: value for name, value in given.items() if value is not None}
        try:
            own = ServeParams.model_validate(serve.model_dump() | changes)
            named = [read_named(one, form, option="--classmate ") for one in self.classmate]
            listed = [{"name": name, "model": model, "serve": own} for name, model in named]
            return ClassmateParams.model_validate(
                {"classmate_model_name_or_path_list": listed}
            ).classmate_model_name_or_path_list
        except ValidationError as error:
            raise line_error(error, where="--classmate") from None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DrawOptions:
    """Options for the continuations."""

    samples: Annotated[
        int, Parameter(help="Continuations of each prefix.", validator=AT_LEAST_ONE)
    ] = 8
    step: Annotated[str, Parameter(help=r"Separator of the steps; \n is a line break.")] = r"\n"
    shuffled: Annotated[
        bool,
        Parameter(
            negative="", help="Also continue prefixes of another problem's chain, a control."
        ),
    ] = False
    max_new_tokens: Annotated[int, Parameter(help="Of a continuation.", validator=AT_LEAST_ONE)] = (
        _DEFAULTS.max_new_tokens
    )
    temperature: Temperature = _DEFAULTS.temperature
    top_p: Annotated[
        float, Parameter(help="Above 0, at most 1.", validator=validators.Number(gt=0, lte=1))
    ] = _DEFAULTS.top_p

    @property
    def separator(self) -> str:
        r"""The separator with its line breaks.

        Raises:
            BadInputError: it is empty.
        """
        if not self.step:
            raise BadInputError(r"--step: is empty; give the separator of the steps, as in '\n'")
        return self.step.replace(r"\n", "\n")

    @property
    def decoding(self) -> Decoding:
        """The sampling parameters."""
        return Decoding(
            temperature=self.temperature, top_p=self.top_p, max_new_tokens=self.max_new_tokens
        )


DEFAULT_DRAWS = DrawOptions()


def probe(
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
    draws: DrawOptions = DEFAULT_DRAWS,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    r"""Let classmates continue given chains from every number of kept steps; a killed command continues.

    Output lines: `{"id","peers":{NAME:{"kept","success","low","high","lift","failed"}},"leak",
    "continuations"}`, lists by the number of kept steps from 0. Prefixes are uncut; `leak` says which give
    the answer away.

    **Examples:**

        reasonloop classmate probe chains.jsonl --classmate small=models/small --output probe.jsonl --html probe.html
        reasonloop classmate probe chains.jsonl --classmate a=models/a --classmate b=models/b --shuffled --output probe.jsonl
        reasonloop classmate probe chains.jsonl --classmate s=NAME --url http://host:8000/v1 --tokenizer models/small --output probe.jsonl
    """
    loaded = params.load()
    given = peers.peers(loaded.serve)
    separator = draws.separator
    check_output(output, source=source)
    if html is not None:
        check_output(html, source=source)
        if html.resolve() == output.resolve():
            raise BadInputError(f"--html {html}: is the --output; choose another")
    from pipeline_lib.problems.trained import trained_on  # noqa: PLC0415 - transformers is slow
    from pipeline_lib.study.pages.page import study_tables, write_page  # noqa: PLC0415 - as above
    from pipeline_lib.systems.classmate.probe import study as of_probe  # noqa: PLC0415 - as above
    from pipeline_lib.systems.classmate.probe.chains import read_chains  # noqa: PLC0415 - as above
    from pipeline_lib.systems.classmate.probe.probe import (  # noqa: PLC0415 - as above
        ProbeSetting,
        check_peers,
        opened_peers,
        probe_chains,
    )

    chains = read_chains(source, step=separator)
    checked = check_peers(given, chains)
    setting = ProbeSetting(
        samples=draws.samples,
        decoding=draws.decoding,
        seed=loaded.seed,
        shuffled=draws.shuffled,
        verify=loaded.verify,
        level=loaded.evaluate.confidence_level,
    )
    with progress_bar("classmate probe") as moved:
        probed = probe_chains(
            chains,
            output,
            setting,
            opening=opened_peers(checked, log_folder=output.resolve().parent / "logs"),
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
