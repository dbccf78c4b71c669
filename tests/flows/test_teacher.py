"""A run whose paths are drawn by the model of a server that its user started."""

import shutil

import pytest

from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.params.whole import Params
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.study import read_study
from pipeline_lib.systems.loop.draw import Route, round_draw
from pipeline_lib.systems.loop.teacher import with_route
from pipeline_lib.systems.stage import Run
from tests.unit.engines.served_model import MODEL, served

SMOKE = ("--profile", "smoke", "--runner", "thread", "--set", "serve.start_timeout_s=5")


@pytest.fixture
def begun(finished_run, tmp_path):
    """A workspace with problems and base."""
    for part in ("data/problems", "models/base"):
        shutil.copytree(finished_run / part, tmp_path / "run" / part)
    return tmp_path / "run"


def drawn_by(url, workspace, *more):
    base = Workspace(workspace).base
    return (
        *("--workspace", workspace, *SMOKE, "--set", f"sample.server.url={url}"),
        *("--set", f"sample.server.model={MODEL}", "--set", f"sample.server.tokenizer={base}"),
        *("--set", "sample.keep_tokens=true", *more),
    )


@pytest.mark.slow
def test_a_whole_run_learns_from_a_teacher(finished_run, begun, reasonloop):
    """Its paths, with token ids of the same tokenizer, are the teacher's; the teacher itself is in the report."""
    with served(Workspace(finished_run).policy(1, rounds=1)) as url:
        done = reasonloop("run", *drawn_by(url, begun))
        assert done.returncode == 0, done.stderr
    paths = shards.read_table(Workspace(begun).round_folders(1).paths)
    assert {path["model"] for path in paths} == {MODEL}
    assert all(path["token_ids"] for path in paths)
    study = read_study(begun / "reports" / "metrics.json")
    arms = {one.base: one.name for one in study.arms}
    assert {"base", "control", "policy", "teacher"} <= {*arms}
    assert study.point(arms["teacher"], "pass@1").n == 24
    assert "teacher" in {one.reference for one in study.differences}


def test_a_server_that_goes_away_or_changes(finished_run, begun, reasonloop):
    """Killed in mid-draw: one line. The next command goes on, but not with another model of the same name.

    One request at a time has the same batches, so the log-probabilities are equal to the last bit.
    """
    one_by_one = ("--set", "serve.concurrency=1", "--set", "execution.workers=1")
    models = Workspace(finished_run)
    paths = Workspace(begun).round_folders(1).paths
    whole = shutil.copytree(begun, begun.with_name("whole"))
    with served(models.policy(1, rounds=1)) as url:
        done = reasonloop("stage", "sample", *drawn_by(url, whole, *one_by_one))
        assert done.returncode == 0, done.stderr
        reasonloop.killed_when(
            (paths / "part-00000.manifest.json").exists,
            *("stage", "sample", *drawn_by(url, begun, *one_by_one)),
        )
    done = reasonloop("stage", "sample", *drawn_by(url, begun, *one_by_one))
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("reasonloop: sample.server.url: ")

    with served(models.base) as url:
        done = reasonloop("stage", "sample", *drawn_by(url, begun, *one_by_one))
        assert done.returncode == 2
        assert "otherwise than when its paths were begun" in done.stderr
    with served(models.policy(1, rounds=1)) as url:
        done = reasonloop("stage", "sample", *drawn_by(url, begun, *one_by_one))
        assert done.returncode == 0, done.stderr
    expected = manifests.read_manifest(Workspace(whole).round_folders(1).paths)
    assert manifests.read_manifest(paths).digest == expected.digest


def test_token_ids_are_sent_to_the_same_tokenizer_alone(begun, tmp_path):
    """Else messages, or a text where the other tokenizer has no chat template; without one, messages."""

    def route(tokenizer):
        params = Params.model_validate(
            {"sample": {"server": {"url": "http://h/v1", "model": "m", "tokenizer": tokenizer}}}
        )
        draw = with_route(round_draw(Run(root=begun, params=params)))
        return draw.route, draw.serve.tokenizer, draw.serve.send_text

    unused = Params.model_validate({"sample": {"server": {"model": "m"}}})
    alone = round_draw(Run(root=begun, params=unused))
    assert alone.model == str(Workspace(begun).base)
    assert alone.serve == unused.serve
    base, other = str(Workspace(begun).base), str(tmp_path / "other")
    assert route(None) == (Route.MESSAGES, None, False)
    assert route(base) == (Route.IDS, base, False)
    tokenizer = load_tokenizer(base)
    tokenizer.chat_template = None
    tokenizer.add_tokens(["hmm"])
    tokenizer.save_pretrained(other)
    assert route(other) == (Route.TEXT, other, True)
    tokenizer.chat_template = "{{ messages[0].content }}"
    tokenizer.save_pretrained(other)
    assert route(other) == (Route.MESSAGES, None, False)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("sample.server.url=http://127.0.0.1:9/v1",), "model is null"),
        (
            ("sample.server.url=http://127.0.0.1:9/v1", "sample.server.model=m"),
            "sample.server.url: ",
        ),
        (("sample.server.url=http://user:secret@h/v1",), "holds a user or password"),
    ],
)
def test_bad_input_is_one_line(options, complaint, called, tmp_path):
    """Before any stage."""
    sets = [word for one in options for word in ("--set", one)]
    done = called("run", "--workspace", tmp_path, *SMOKE, *sets)
    assert done.returncode
    [line] = done.stderr.splitlines()
    assert complaint in line
    assert not (tmp_path / "data").exists()
