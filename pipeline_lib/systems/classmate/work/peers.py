"""The stage of what a training needs: problems, the actor's base, and peers where none are named."""

import pathlib
import shutil
from typing import Any

from pipeline_lib.store import checkpoints
from pipeline_lib.systems.classmate.made_models import make_base, make_peer
from pipeline_lib.systems.classmate.problem_files import make_problems, read_problems
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import step_recorder
from pipeline_lib.train.tracking.trackers import Trackers

_STAGE = "classmate-peers"


def make_peers(run: Run) -> None:
    """Write problems, base and peers, unless they exist; an interrupted training is resumed."""
    folders, params, seed = run.workspace.classmate, run.params.classmate, run.params.seed
    make_problems(params.prepare, folders.problems, root=run.root, stage=_STAGE, seed=seed)
    # Of its training problems the actor gets verdicts alone: peers that were trained on their solutions would
    # pass on labels that plain training lacks.
    bootstrap = read_problems(folders.problems, "bootstrap")
    make_base(bootstrap, folders.base, params, seed=seed, **_shown(run, "base"))
    folders.peers.mkdir(parents=True, exist_ok=True)  # dvc.yaml lists it as an output
    recipes = {recipe.name: recipe for recipe in params.used_recipes}
    named = {
        pathlib.Path(peer.model).resolve()
        for peer in (*params.classmate_model_name_or_path_list, *params.held_out)
    }
    # Without recipes nothing is made, and what an earlier run has made may be what is named.
    for path in folders.peers.iterdir() if recipes else ():
        # The checkpoints of an interrupted training belong to its peer.
        if (checkpoints.output_of(path) or path).name in recipes or path.resolve() in named:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name, recipe in recipes.items():
        make_peer(
            bootstrap,
            folders.peers / name,
            recipe,
            params,
            seed=seed,
            **_shown(run, name),
        )


def _shown(run: Run, name: str) -> dict[str, Any]:
    """Progress and trackers of one training."""
    folder = run.workspace.trackers(f"{_STAGE}-{name}")
    return {
        "progress": step_recorder(run.root, _STAGE, label=f"{_STAGE} {name}"),
        "trackers": Trackers.of(run.params.execution, folder),
    }
