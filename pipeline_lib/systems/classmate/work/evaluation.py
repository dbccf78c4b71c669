"""The stage that compares the base and all arms."""

from collections.abc import Sequence

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.store import manifests
from pipeline_lib.store.keys import stage_key
from pipeline_lib.study.pages.page import REPORT_NAME
from pipeline_lib.study.study import METRICS_NAME
from pipeline_lib.systems.classmate.evaluation import evaluate_policies
from pipeline_lib.systems.classmate.made_models import held_out_peers, training_peers
from pipeline_lib.systems.classmate.peer import Peer
from pipeline_lib.systems.classmate.peer_engine import check_peer, peer_identity
from pipeline_lib.systems.classmate.problem_files import read_problems
from pipeline_lib.systems.classmate.work.train import arm_folder
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import record_work

_KIND = "classmate-evaluation"
_STAGE = "classmate-evaluate"


def evaluated_peers(run: Run) -> tuple[PeerParams, ...]:
    """The peers of the training, then those that are held out."""
    params, folder = run.params.classmate, run.workspace.classmate.peers
    return (*training_peers(params, folder), *held_out_peers(params, folder))


def is_evaluated(run: Run) -> bool:
    """True if the report is of the present models and params."""
    folders = run.workspace.classmate
    written = all((folders.reports / name).is_file() for name in (METRICS_NAME, REPORT_NAME))
    return written and manifests.current(folders.evaluation, kind=_KIND, key=_key(run)) is not None


def evaluate(run: Run, peers: Sequence[Peer]) -> None:
    """Compare the policies with ``peers``, as of `evaluated_peers`; a killed evaluation continues."""
    folders, params = run.workspace.classmate, run.params.classmate
    key = _key(run)
    is_complete = evaluate_policies(
        _policies(run),
        read_problems(folders.problems, "test"),
        peers,
        folders.evaluation,
        folders.reports,
        run.params,
        logs=run.root / "logs",
        held_out={peer.name for peer in held_out_peers(params, folders.peers)},
        on_progress=lambda name, done, total: record_work(
            run.root, _STAGE, done=done, total=total, label=f"{_STAGE} {name}"
        ),
    )
    if is_complete:
        manifests.seal(folders.evaluation, kind=_KIND, key=key)


def _policies(run: Run) -> dict[str, str]:
    arms = {arm.name: str(arm_folder(run, arm)) for arm in run.params.classmate.arms}
    return {"base": str(run.workspace.classmate.base), **arms}


def _key(run: Run) -> str:
    params = run.params
    return stage_key(
        __name__,
        params={
            "classmate": params.classmate.model_dump(mode="json"),
            "sample": params.sample.model_dump(mode="json"),
            "engine": [params.serve.engine, list(params.serve.options)],
            "evaluate": params.evaluate.model_dump(mode="json"),
            "verify": params.verify.model_dump(mode="json"),
            "seed": params.seed,
        },
        inputs={
            "problems": manifests.read_manifest(run.workspace.classmate.problems).digest,
            **{name: model_identity(model) for name, model in _policies(run).items()},
            **{
                f"peer {peer.name}": peer_identity(check_peer(peer))
                for peer in evaluated_peers(run)
            },
        },
    )
