"""A finished workspace with invented letters in place of sampled paths, for tests of promotion."""

import pathlib
from collections.abc import Sequence
from dataclasses import replace

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Group
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import write_json, write_text
from pipeline_lib.store.workspace import DrawFolders, Workspace
from pipeline_lib.study.policies import compare_groups
from pipeline_lib.study.study import METRICS_NAME, study_row
from pipeline_lib.telemetry import record_work
from pipeline_lib.verify.dispatch import verdict_rows
from tests.unit.study.judged_groups import judged_group

PARAMS = EvaluateParams(num_paths=2, ks=(1,), resamples=500)
COMPUTE = {"cpu_seconds": 62.0, "gpu_seconds": 0.0, "trained_tokens": 4032, "drawn_tokens": 99}


def groups_of(letters: Sequence[str], *, model: str = "0123456789abcdef", **changed: object):
    """Groups p0, p1, ... with paths of ``model``; ``changed`` are other values of the provenance."""
    return [_drawn_by(judged_group(f"p{i}", one), model, changed) for i, one in enumerate(letters)]


def _drawn_by(group: Group, model: str, changed: dict[str, object]) -> Group:
    members = [
        replace(
            one,
            path=replace(
                one.path,
                provenance=replace(
                    one.path.provenance, **{"seed": one.path.index, "model": model, **changed}
                ),
            ),
        )
        for one in group.members
    ]
    return replace(group, members=members)


def finish(
    root: pathlib.Path,
    *,
    base: Sequence[str],
    trained: Sequence[str],
    weights: str = "trained weights",
    **changed: object,
) -> Workspace:
    """Write policy, evaluation, events and metrics of a run below ``root``."""
    workspace = Workspace(root)
    policy = workspace.policy(1, rounds=1)
    write_text(policy / "model.safetensors", weights)
    write_text(policy / "tokenizer" / "vocabulary.txt", "1 2 3")
    manifests.seal(policy, kind="model", key="train")
    before = groups_of(base, **changed)
    after = groups_of(trained, model=model_identity(str(policy)), **changed)
    problems = [group.problem.row() for group in after]
    shards.write_table(workspace.problems("test"), problems, kind="problems", key="prepare")
    _write(workspace.evaluation("base"), before, key="of the base")
    _write(workspace.evaluation("trained"), after, key="of the trained")
    for shard in (1, 2, 2):  # the second shard was drawn twice
        record_work(
            root, "evaluate", done=shard, total=2, key="of the trained", worker_seconds=0.5 * shard
        )
    study = compare_groups({"base": before, "policy": after}, PARAMS, seed=7).study
    write_json(workspace.evaluation_result / METRICS_NAME, study_row(study))
    manifests.seal(workspace.evaluation_result, kind="evaluation", key="compare")
    write_json(workspace.metrics, {"compute": {"loop": COMPUTE, "control": None}})
    return workspace


def _write(folders: DrawFolders, groups: Sequence[Group], *, key: str) -> None:
    members = [member for group in groups for member in group.members]
    paths = [member.path for member in members]
    rows = verdict_rows(paths, [member.verdict for member in members])
    shards.write_table(folders.paths, [path.row() for path in paths], kind="paths", key=key)
    shards.write_table(folders.verdicts, rows, kind="verdicts", key=key)
