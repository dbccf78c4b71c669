"""Space for a run is checked against what it will still write."""

import pytest

from flows.run.admission import check_writable
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.whole import Params
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.loop import preflight

WEIGHTS = 4 * 12 * 4 * 128**2
"""Bytes of a policy of 4 layers of width 128."""
PATH = 300 + 4 * 32
"""Bytes of a path of 32 tokens with its verdict."""


def test_the_estimate_counts_what_is_missing(tmp_path):
    """From nothing: 4 policies and 2 trainings with 6 copies, 2 rounds and 3 evaluations. Afterwards
    less by what is sealed, and by what is there of the rest; nothing at the end.
    """
    params, workspace = Params(), Workspace(tmp_path)
    paths = (2 * 8000 * 6 + 3 * 400 * 16) * PATH
    assert preflight.needed_bytes(tmp_path, params) == (4 + 12) * WEIGHTS + paths
    seal(workspace.base)
    seal(workspace.round_folders(1).verdicts)
    workspace.round_folders(2).paths.mkdir(parents=True)
    (workspace.round_folders(2).paths / "part").write_bytes(bytes(60))
    rest = paths - 8000 * 6 * PATH - 60
    assert preflight.needed_bytes(tmp_path, params) == (3 + 12) * WEIGHTS + rest
    for folder in (workspace.control, *(workspace.policy(n, rounds=2) for n in (1, 2))):
        seal(folder)
    seal(workspace.round_folders(2).verdicts)
    for policy in ("base", "control", "trained"):
        seal(workspace.evaluation(policy).verdicts)
    assert preflight.needed_bytes(tmp_path, params) == 0


def test_a_model_in_half_precision(tmp_path):
    """A copy is stored like the model, a policy in float32, as weights and moments of checkpoints.

    Checkpoints of adapters have nearly no size. The model has 1000 weights.

    A model that is taught the format is drawn untouched, too: a path is counted with 300 bytes and 4 a token.
    """
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(bytes(2 * 1000))
    (model / "config.json").write_text('{"dtype": "bfloat16"}', encoding="utf-8")
    given = {"model": str(model), "format_steps": 0}
    full = {"rounds": 1, "bootstrap": given, "sample": {"num_paths": 1}, "train": {"method": "sft"}}
    tuned = full | {"train": {"method": "sft", "lora": {"enabled": True}}}
    taught = tuned | {"bootstrap": given | {"format_steps": 8}}
    run = tmp_path / "run"
    params = [Params.model_validate(each) for each in (full, tuned, taught)]
    needed = [preflight.needed_bytes(run, each) for each in params]
    paths = params[2].prepare.test_problems * params[2].evaluate.num_paths
    untouched = paths * (300 + 4 * params[2].sample.max_new_tokens)
    assert needed[0] - needed[1] == 2 * 6 * 4 * 1000
    assert needed[2] - needed[1] == 6 * 4 * 1000 + (4 - 2) * 1000 + untouched
    for folder, weight_bytes in ((Workspace(run).base, 2), (Workspace(run).control, 4)):
        before = preflight.needed_bytes(run, params[1])
        seal(folder)
        assert before - preflight.needed_bytes(run, params[1]) == weight_bytes * 1000


def seal(folder):
    folder.mkdir(parents=True)
    (folder / "manifest.json").touch()


def test_a_disk_without_room_is_refused(tmp_path):
    """The message has what is free and what is needed: a policy of 2^40 weights fits no disk."""
    params = Params.model_validate({"bootstrap": {"hidden_size": 2**18, "num_layers": 2}})
    with pytest.raises(ReasonloopError, match=r"MiB free, and the run will need about \d+ MiB"):
        preflight.check_space(tmp_path, params)


def test_a_workspace_that_cannot_be_made_is_refused(tmp_path):
    """A file where the folder should be: one line with the path."""
    (tmp_path / "file").touch()
    with pytest.raises(ReasonloopError, match="file: cannot be written"):
        check_writable(tmp_path / "file")
