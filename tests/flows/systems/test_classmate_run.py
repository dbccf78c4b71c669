"""`reasonloop classmate run`, `train`, `evaluate` and `show`: stages, reuse, a kill, bad input."""

import json
import os
import runpy
from dataclasses import replace

import pytest

from benchmarks.lib.repository import REPOSITORY
from flows.cli.classmate.probe import show
from pipeline_lib.errors import BadInputError
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import digest_file
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.study import read_study
from pipeline_lib.systems.classmate.draws import DrawRecord, RewardedPath, read_draw, write_draw
from pipeline_lib.systems.classmate.stages import CLASSMATE
from pipeline_lib.telemetry import events_size, read_events
from tests.flows import smoke_runs
from tests.synthetic_data import write_data
from tests.unit.systems.classmate.peer_models import save_peer

SHORT = smoke_runs.CLASSMATE
SERVER = "{name: x, model: m, serve: {engine: url, url: 'http://127.0.0.1:1/v1'}}"


def policies(root):
    folders = Workspace(root).classmate
    return folders.plain / "plain", folders.trained / "peers"


def weights(root):
    return [digest_file(path / "model.safetensors") for path in policies(root)]


def test_three_policies_are_compared(classmate_run):
    """After all stages in their order; the peer that the training did not ask is held out."""
    worked = [event["stage"] for event in read_events(classmate_run) if event["event"] == "stage"]
    assert worked == [stage.name for stage in CLASSMATE.stages]
    plain, with_peers = weights(classmate_run)
    assert plain != with_peers
    reports = Workspace(classmate_run).classmate.reports
    found = read_study(reports / "metrics.json")
    assert found.compute["policies"].keys() == {"base", "plain", "peers"}
    assert found.compute["peers"] == {
        "small": {"held_out": False, "unscored": 0},
        "other": {"held_out": True, "unscored": 0},
    }
    assert found.compute["draws_without_peers"] == 0
    one = found.headline
    assert one is not None
    assert (one.arm, one.reference) == ("peers peer=other", "plain peer=other")
    assert (one.measure, one.subset) == ("held-out peer", "right paths")
    assert len(shards.read_table(reports / "attempts")) == 3 * 24 * 16
    assert f"<h1>{found.claims[0]}</h1>" in (reports / "report.html").read_text("utf-8")


@pytest.mark.slow
def test_finished_stages_are_reused(reasonloop, classmate_run):
    """The same command again trains, draws and asks nothing."""
    before, offset = weights(classmate_run), events_size(classmate_run)
    done = reasonloop(
        "classmate", "run", "--workspace", classmate_run, "--runner", "thread", *SHORT
    )
    assert done.returncode == 0, done.stderr
    assert [e for e in read_events(classmate_run, offset=offset) if e["event"] == "work"] == []
    assert weights(classmate_run) == before


@pytest.mark.slow
def test_actors_give_the_weights_of_processes(reasonloop, classmate_run, tmp_path):
    """On Ray, with the plain training in a worker beside that with peers."""
    done = reasonloop("classmate", "run", "--workspace", tmp_path, "--runner", "ray", *SHORT)
    assert done.returncode == 0, done.stderr + done.stdout
    assert weights(tmp_path) == weights(classmate_run)


@pytest.mark.slow
@pytest.mark.fault("SIGKILL in a training with classmates", "resumes")
def test_a_killed_run_continues(reasonloop, classmate_run, tmp_path):
    """SIGKILL after the first checkpoint: the same command ends with the same weights."""
    command = ("classmate", "run", "--workspace", tmp_path, "--runner", "thread", *SHORT)
    checkpoints = "models/classmate/trained/.peers.work/*/*/checkpoint-2"
    reasonloop.killed_when(lambda: any(tmp_path.glob(checkpoints)), *command)
    done = reasonloop(*command)
    assert done.returncode == 0, done.stderr
    assert weights(tmp_path) == weights(classmate_run)


@pytest.mark.slow
def test_weight_0_is_plain_training(reasonloop, classmate_run, tmp_path):
    """`train` with a peer at weight 0 gives the weights of `classmate-plain`, and logs the peer's scores.

    The peer has two replicas on Ray, which the command starts for itself.
    """
    folders = Workspace(classmate_run).classmate
    peer = {"name": "small", "model": str(folders.peers / "small"), "replicas": 2}
    output = tmp_path / "actor"
    done = reasonloop(
        *("classmate", "train", folders.base, "--output", output, "--runner", "ray", *SHORT),
        *("--set", "classmate.classmate_reward_weight=0"),
        *("--set", f"classmate.classmate_model_name_or_path_list=[{json.dumps(peer)}]"),
    )
    assert done.returncode == 0, done.stderr
    assert digest_file(output / "model.safetensors") == weights(classmate_run)[0]
    assert "avg_classmate_score" in done.stdout
    manifests.read_manifest(output)


@pytest.mark.slow
def test_given_policies_are_compared(reasonloop, classmate_run, tmp_path):
    """The last against those between the first and it; the result is in the output folder."""
    folders, (plain, trained) = Workspace(classmate_run).classmate, policies(classmate_run)
    done = reasonloop(
        *("classmate", "evaluate", f"base={folders.base}", f"plain={plain}"),
        *(f"actor={trained}", "--output", tmp_path, "--runner", "ray", *SHORT),
        *("--set", f"classmate.classmate_model_name_or_path_list=[{folders.peers / 'small'}]"),
    )
    assert done.returncode == 0, done.stderr
    assert "Gains over plain, corrected for several tests" in done.stdout
    found = read_study(tmp_path / "metrics.json").point("actor", "pass@1")
    expected = read_study(folders.reports / "metrics.json").point("peers", "pass@1")
    assert found == replace(expected, arm="actor")


def test_show_prints_a_draw(reasonloop, classmate_run):
    """Completion, prefix, peer, continuation and rewards of the paths of one problem."""
    draws = Workspace(classmate_run).classmate.draws
    done = reasonloop("classmate", "show", draws, "--step", "2")
    assert done.returncode == 0, done.stderr
    assert "step 2, problem countdown-" in done.stdout
    assert "avg_classmate_score" in done.stdout
    assert "small" in done.stdout
    absent = reasonloop("classmate", "show", draws, "--step", "99")
    assert absent.returncode == 2
    [line] = absent.stderr.splitlines()
    assert "--step 99: is not kept; there are 0 to 3" in line


@pytest.fixture
def shown(tmp_path, capsys):
    """Runs `show` on draws in ``tmp_path``."""

    def printed(**options):
        show(tmp_path, **options)
        return capsys.readouterr().out

    return printed


def write_empty_draw(folder, step):
    path = RewardedPath(
        problem_id="p", completion="", prefix=None, scores={}, base=0.0, bonus=None, reward=0.0
    )
    figures = {"base_reward": float(step)}
    record = DrawRecord(
        step=step, figures=figures, failures={}, empty={}, paths=[path], prefixes=[]
    )
    write_draw(folder, record)


def test_show_reads_the_training_of_the_newest_file(shown, tmp_path):
    """An older training with a later step is not mixed in; the folder's name is printed."""
    for name, steps, time in (("old", (0, 9), 1000), ("new", (0, 1), 2000)):
        for step in steps:
            write_empty_draw(tmp_path / name, step)
        for path in (tmp_path / name).iterdir():
            os.utime(path, (time, time))
    out = shown()
    assert out.startswith(f"training {tmp_path / 'new'}\nstep 1, problem p")
    with pytest.raises(BadInputError, match="there are 0 to 1"):
        shown(step=9)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("step-000000.json", '{"step": 0}', "step-000000.json: figures: Field required"),
        ("step-000000.json", "[]", "step-000000.json: Input should be"),
        ("step-x.json", "{}", "has no draws"),
    ],
)
def test_show_of_other_files_is_one_line(shown, tmp_path, name, text, message):
    """No traceback: bad input."""
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInputError, match=message) as error:
        shown()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["classmate_model_name_or_path_list=[./absent]"], "absent: no such folder"),
        (
            ["classmate_model_name_or_path_list=[a/b, c/b]"],
            "the name 'b' is given to two classmates",
        ),
        (
            ["classmate_model_name_or_path_list=[a/b]", "held_out=[{name: c, model: a/b}]"],
            "classmate c: a/b is also a peer of the training",
        ),
        (["classmate_model_name_or_path_list=['./a b']"], "give {name: NAME, model: ./a b}"),
        (["classmate_reward_weight=-1"], "classmate.classmate_reward_weight: Input should be"),
        (["classmate_reward_weight=2", "fusion=convex"], "with fusion=convex it is at most 1"),
        (["arms=[{name: plain}]"], "arms: plain; give two or more"),
        (["arms=[{name: a}, {name: base}]"], "with distinct names other than base"),
        (["cuts=4"], "cuts=4; keep has 3 shares"),
        (
            ["arms=[{name: a}, {name: b, credit: prefix}]", "train.method=rloo"],
            "credit=prefix pays",
        ),
        (["evaluate.against=x"], "evaluate.against=x: is none of base, plain, shuffled"),
        (["keep=[1.5]"], "classmate.keep.0: Input should be less than or equal to 1"),
        (["missing=none"], "classmate.missing: Input should be 'mean' or 'base'"),
        (["num_return_sequences=0"], "classmate.num_return_sequences: Input should be"),
        (["fusion=normalized", "train.method=rloo"], "fusion=normalized needs train.method=grpo"),
        (["train.method=dpo"], "train.method=dpo draws no paths"),
        ([f"classmate_model_name_or_path_list=[{SERVER}]"], "set serve.tokenizer"),
        (["made_peers=[]"], "have no peer for the training"),
        (["train.warm_start_steps=5"], "train.warm_start_steps=5: the actor has no warm start"),
        (["train.control=true"], "train.control=true: the control is an arm"),
        (["prepare.dataset=coutdown"], "did you mean 'countdown'?"),
    ],
)
def test_bad_settings_are_one_line(refused, tmp_path, settings, message):
    """Before anything starts; exit code 2."""
    given = [part for one in settings for part in ("--set", f"classmate.{one}")]
    assert message in refused("classmate", "run", "--workspace", tmp_path / "new", *given)
    assert not (tmp_path / "new").exists()


def test_a_training_without_peers_is_plain_by_intent(refused, tmp_path):
    """The weight of the peers' success is not 0, though no peer is named."""
    line = refused("classmate", "train", "models/base", "--output", tmp_path / "actor")
    assert "name a peer, or set the weight 0 for a plain training" in line


def test_a_folder_without_a_tokenizer_is_no_peer(called, tmp_path):
    """Found before the base is trained."""
    (tmp_path / "empty").mkdir()
    peers = f"classmate.classmate_model_name_or_path_list=[{tmp_path / 'empty'}]"
    done = called("classmate", "run", "--workspace", tmp_path / "new", "--set", peers)
    assert done.returncode == 2
    assert f"classmate empty: model {tmp_path / 'empty'}: " in done.stderr.splitlines()[-1]
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_peers_that_ray_cannot_place_start_no_training(reasonloop, classmate_run, tmp_path):
    """One line, before problems and base are made."""
    peer = {"name": "large", "model": str(Workspace(classmate_run).classmate.peers / "small")}
    row = json.dumps(peer | {"num_gpus": 64})
    done = reasonloop(
        *("classmate", "run", "--runner", "ray", "--workspace", tmp_path),
        *("--set", f"classmate.classmate_model_name_or_path_list=[{row}]"),
    )
    assert done.returncode == 2
    [line] = [line for line in done.stderr.splitlines() if line.startswith("reasonloop: ")]
    assert "Ray cannot place" in line
    assert "lower num_gpus" in line
    assert not Workspace(tmp_path).classmate.base.exists()


def test_training_on_code(called, tmp_path):
    """`train` on MBPP, with whole chains and base rewards alone: programs are judged in the sandbox, peers asked."""
    actor = save_peer(tmp_path / "actor")
    peer = save_peer(tmp_path / "peer", seed=4)
    source = write_data(tmp_path) / "mbpp"
    done = called(
        *("classmate", "train", actor, "--output", tmp_path / "trained", "--runner", "thread"),
        *("--set", f"classmate.classmate_model_name_or_path_list=[{peer}]"),
        *("--set", f"classmate.prepare={{dataset: mbpp, source: {source}, train_problems: 2}}"),
        *("--set", "classmate.keep=[1.0]", "--set", "classmate.missing=base"),
        *("--set", "classmate.max_new_tokens=8", "--set", "sample.max_new_tokens=8"),
        *("--set", "classmate.train.steps=1", "--set", "classmate.train.batch_size=2"),
    )
    assert done.returncode == 0, done.stderr
    [draws] = (tmp_path / "trained.draws").iterdir()
    draw = read_draw(draws / "step-000000.json")
    assert {path.problem_id.partition("-")[0] for path in draw.paths} == {"mbpp"}
    assert draw.figures["classmate_scores/peer"] == 0
    assert not draw.failures["peer"]


def test_the_example_trains_from_python(capsys, monkeypatch, tmp_path):
    """`examples/classmate_training.py` with one peer in a process, for one step."""
    arguments = [
        *(save_peer(tmp_path / "base"), tmp_path / "actor", "execution.runner=thread"),
        f"classmate.classmate_model_name_or_path_list=[{save_peer(tmp_path / 'peer', seed=4)}]",
        *("classmate.train.steps=1", "classmate.train.batch_size=1", "classmate.max_new_tokens=8"),
        *("sample.max_new_tokens=8", "classmate.prepare.train_problems=4"),
    ]
    script = REPOSITORY / "examples" / "classmate_training.py"
    monkeypatch.setattr("sys.argv", [str(script), *map(str, arguments)])
    runpy.run_path(str(script))
    out = capsys.readouterr().out
    assert f"{tmp_path / 'actor'}: 1 steps; " in out
    assert "'avg_classmate_score': 0.0" in out
    manifests.read_manifest(tmp_path / "actor")
