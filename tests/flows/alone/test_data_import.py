"""`reasonloop data import` in a real DVC repository: copy or links, .dvc file, prepare.source."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from benchmarks.lib.repository import REPOSITORY
from flows.cli.files.data import import_
from pipeline_lib.errors import BadInputError
from pipeline_lib.params_file import load_params
from tests.flows.dvc_repositories import open_repository


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """A folder of raw data outside the repository, with a folder below it."""
    folder = tmp_path_factory.mktemp("downloads") / "gsm8k"
    (folder / "main").mkdir(parents=True)
    (folder / "main" / "test.jsonl").write_text('{"question": "1+1?"}\n', encoding="utf-8")
    (folder / "LICENSE").write_text("MIT\n", encoding="utf-8")
    return folder


def data_import(*arguments):
    """The command in a process of its own, since DVC warns of its own imports."""
    return subprocess.run(
        [sys.executable, "-m", "flows.cli", "data", "import", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def repository(tmp_path):
    """A DVC repository with the params file and the ignored paths of this one."""
    names = ("params.yaml", ".gitignore", ".dvc/config", ".dvc/.gitignore")
    return open_repository(tmp_path, (*names, "data/raw/.gitignore"), os.environ)


@pytest.mark.parametrize("link", [False, True], ids=["copy", "link"])
def test_the_folder_is_data_of_the_repository(repository, raw, link):
    """Git sees a .dvc file and the params; DVC restores the data from its cache; links share it."""
    params_file = repository.folder / "params.yaml"
    done = data_import(raw, "--params", params_file, *(["--link"] if link else []))
    assert done.returncode == 0, done.stderr
    assert repository.git("status", "--short").split() == [
        *("M", "params.yaml"),
        *("??", "data/raw/gsm8k.dvc"),
    ]
    target = repository.folder / "data" / "raw" / "gsm8k"
    copied = target / "main" / "test.jsonl"
    assert copied.read_bytes() == (raw / "main" / "test.jsonl").read_bytes()
    assert copied.stat().st_nlink == (2 if link else 1)
    assert (raw / "main" / "test.jsonl").stat().st_nlink == 1
    copied.unlink()
    repository.dvc("checkout", "data/raw/gsm8k.dvc")
    assert copied.exists()
    assert not repository.stale()


def test_only_the_source_changes_in_the_params_file(repository, raw):
    """One line differs from the file before, and its comment is kept."""
    params_file = repository.folder / "params.yaml"
    done = data_import(raw, "--name", "school-math", "--params", params_file)
    assert done.returncode == 0, done.stderr
    before = (REPOSITORY / "params.yaml").read_text("utf-8").splitlines()
    after = params_file.read_text("utf-8").splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert [new for _, new in changed] == [changed[0][0].replace("null", "data/raw/school-math")]
    assert "# a folder" in changed[0][1]
    assert load_params(params_file).prepare.source == "data/raw/school-math"


@pytest.mark.parametrize(
    ("source", "name", "reason"),
    [
        ("missing", None, "not a folder with files"),
        ("gsm8k", "../x", "letters, digits"),
        ("gsm8k", "x.dvc", "letters, digits"),
        ("gsm8k", "taken", "exists; pass another --name"),
        (".", "all", "contains"),
    ],
)
def test_refusals_leave_everything_as_it_was(repository, raw, source, name, reason):
    """One line with the remedy; params and data/raw are unchanged."""
    folder = repository.folder if source == "." else raw.with_name(source)
    (repository.folder / "data" / "raw" / "taken.dvc").touch()
    repository.git("add", ".")
    state = repository.git("status", "--short")
    with pytest.raises(BadInputError, match=reason):
        import_(folder, name=name, params_file=repository.folder / "params.yaml")
    assert repository.git("status", "--short") == state


def test_a_folder_without_dvc_is_refused(tmp_path, raw):
    """The params file of no DVC repository."""
    (tmp_path / "params.yaml").write_bytes((REPOSITORY / "params.yaml").read_bytes())
    with pytest.raises(BadInputError, match="not a DVC repository; run `dvc init`"):
        import_(raw, params_file=tmp_path / "params.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["params.yaml"]


def test_a_failure_of_dvc_leaves_no_copy(repository, raw):
    """A name that is the output of a stage: one line, no folder, params as before."""
    stage = {"cmd": "true", "outs": ["data/raw/taken"]}
    text = yaml.safe_dump({"stages": {"make": stage}})
    (repository.folder / "dvc.yaml").write_text(text, encoding="utf-8")
    params_file = repository.folder / "params.yaml"
    done = data_import(raw, "--name", "taken", "--params", params_file)
    assert done.returncode == 1
    assert re.fullmatch(r"reasonloop: .*raw/taken: DVC cannot add it \(.+\)\n", done.stderr)
    left = [path.name for path in (repository.folder / "data" / "raw").iterdir()]
    assert left == [".gitignore"]
    assert params_file.read_bytes() == (REPOSITORY / "params.yaml").read_bytes()
