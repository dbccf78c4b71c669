"""The first stage of PaCoRe: judged paths of a policy."""

import pathlib
import shutil
from collections.abc import Sequence
from functools import partial

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.known.table import check_own_engine
from pipeline_lib.engines.pretrained import load_chat_format
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import SampleParams
from pipeline_lib.records import Path, Problem, Row
from pipeline_lib.sampling.paths import sample_paths
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import digest_json
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.reuse import Rows, Unit, make_folder, make_shard
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.pacore import scratch
from pipeline_lib.systems.pacore.scratch import on_own_task
from pipeline_lib.systems.pacore.settings import call_tokens, check_compaction, require_chat_format
from pipeline_lib.systems.stage import Run
from pipeline_lib.train.weights import policies
from pipeline_lib.train.weights.export import write_compact_chat
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import judge_paths, open_verifier

_KIND = "pacore-messages"
_SHARD_PROBLEMS = 500


def check_run(run: Run, *, draws: bool) -> None:
    """Check the engine of the params, and what `check_source` checks unless the run makes it."""
    check_own_engine(run.params.serve, is_started=draws)
    if run.params.pacore.start == "policy":
        check_source(run)
    if run.params.pacore.start == "scratch":
        check_compaction(run.params.pacore, is_compact=True)
        on_own_task(run)


def check_source(run: Run) -> None:
    """Raise BadInputError if the workspace has no such policy, or one that cannot summarize as the params demand."""
    source, policy = source_of(run), policy_of(run)
    for folder in (policy, source.problems("train"), source.problems("test")):
        if not (folder / manifests.MANIFEST_NAME).exists():
            raise BadInputError(
                f"{folder}: there is none; finish `reasonloop run --workspace {source.root}` first"
            )
    chat_format = load_chat_format(str(policy))
    # A policy without a template becomes a compact chat model.
    check_compaction(run.params.pacore, is_compact=chat_format is None or chat_format.is_compact)


def make_data(run: Run) -> None:
    """Write the policy as a chat model, and judged paths of it for each train problem; or what `scratch` needs."""
    if run.params.pacore.start == "scratch":
        scratch.make_data(run)
        return
    check_source(run)
    folders = run.workspace.pacore
    _make_base(run, policy_of(run))
    problems = read_problems(run, "train")
    pacore = run.params.pacore
    chat_format = require_chat_format(load_chat_format(str(folders.base)), "the policy")
    sample = SampleParams(
        num_paths=pacore.cached_paths,
        temperature=pacore.temperature,
        top_p=pacore.top_p,
        max_new_tokens=call_tokens(pacore, chat_format),
        batch_size=run.params.sample.batch_size,
    )
    key = stage_key(
        __name__,
        params={
            "sample": sample.model_dump(mode="json"),
            "engine": [run.params.serve.engine, list(run.params.serve.options)],
            "verify": run.params.verify.model_dump(mode="json"),
            "seed": run.params.seed,
        },
        inputs={
            "base": model_identity(str(folders.base)),
            "problems": digest_json([problem.row() for problem in problems]),
        },
    )
    if manifests.current(folders.messages, kind=_KIND, key=key) is not None:
        return
    parts = shards.split(problems, _SHARD_PROBLEMS)
    with (
        started_engine(
            str(folders.base),
            run.params.serve,
            log_folder=run.root / "logs",
            batch_size=sample.batch_size,
        ) as engine,
        open_verifier(run.params.verify, workers=run.params.execution.workers) as verifier,
    ):

        def draw(part: Sequence[Problem]) -> Rows:
            paths = sample_paths(part, engine, sample, seed=run.params.seed, draw="pacore")
            verdicts = judge_paths(paths, part, verifier)
            return Rows(rows=list(map(_row, paths, verdicts)))

        for index, part in enumerate(parts):
            unit = Unit(
                workspace=run.root, stage="pacore-data", key=key, index=index, total=len(parts)
            )
            make_shard(unit, folders.messages, kind=_KIND, rows=partial(draw, part))
    shards.seal_table(folders.messages, len(parts), kind=_KIND, key=key)


def _row(path: Path, verdict: Verdict) -> Row:
    return {
        "problem_id": path.problem_id,
        "text": None if path.error else path.text,
        "strict": verdict.strict,
    }


def source_of(run: Run) -> Workspace:
    """The workspace of the finished run."""
    source = run.params.pacore.source
    return Workspace(pathlib.Path(source).resolve()) if source else run.workspace


def policy_of(run: Run) -> pathlib.Path:
    """The policy that the stages start from."""
    if run.params.pacore.start == "base":
        return source_of(run).base
    return source_of(run).policy(run.params.rounds, rounds=run.params.rounds)


def read_problems(run: Run, split: str) -> list[Problem]:
    """The problems of the finished run, or those of a model from scratch."""
    is_own = run.params.pacore.start == "scratch"
    table = run.workspace.pacore.problems / split if is_own else source_of(run).problems(split)
    return [Problem.from_row(row) for row in shards.iter_table(table)]


def _make_base(run: Run, policy: pathlib.Path) -> None:
    """Copy the policy, with a chat template if it has none."""
    key = stage_key(__name__, params={}, inputs={"policy": model_identity(str(policy))})
    unit = Unit(workspace=run.root, stage="pacore-data", key=key, label="pacore-base")

    def fill(fresh: pathlib.Path) -> None:
        if load_chat_format(str(policy)) is None:
            write_compact_chat(str(policy), fresh)
            return
        for file in policy.iterdir():
            if file.is_file() and file.name != manifests.MANIFEST_NAME:
                shutil.copy2(file, fresh)

    make_folder(unit, run.workspace.pacore.base, kind=policies.KIND, fill=fill)
