"""Digests of functions of the user: what changes them, and what does not."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.own.code import VERIFIERS, code_of, find_function, find_source, names_of
from pipeline_lib.params_file import load_params

TASK = '''
"""A task."""
import helper
from math import isclose as close

LIMIT = 3
OTHER = 4

def verify(answer, text):
    """Right or wrong."""
    return _equal(answer, text)

def _equal(a, b):
    return close(a, helper.number(b)) or LIMIT > 5

def reward(completions, **_):
    return [0.0 for _ in completions]
'''
HELPER = "def number(text):\n    return float(text)\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


def digest(folder, name="verify"):
    return code_of(find_function(f"{folder}/task.py:{name}", key="k", group=VERIFIERS))


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("LIMIT = 3", "LIMIT = 9", True),
        ("isclose as close", "isfinite as close", True),
        ("or LIMIT > 5", "or LIMIT > 6", True),
        ("OTHER = 4", "OTHER = 5", False),
        ("Right or wrong.", "Wrong or right.", False),
        ("import helper", "import helper  # sums", False),
        ("return [0.0", "return [1.0", False),
    ],
)
def test_what_a_function_reaches_changes_it(folder, old, new, changes):
    before, other = digest(folder), digest(folder, "reward")
    (folder / "task.py").write_text(TASK.replace(old, new))
    assert (digest(folder) != before) == changes
    assert (digest(folder, "reward") != other) == (old == "return [0.0")


def test_a_file_beside_it_counts(folder):
    before = digest(folder)
    (folder / "helper.py").write_text(HELPER.replace("float", "int"))
    (folder / "task.py").write_text(TASK)  # read again
    assert digest(folder) != before


def test_names_and_modules(folder):
    source = find_source(f"{folder}/task.py", key="k", group=VERIFIERS)
    assert {"verify", "reward", "LIMIT", "helper", "close"} <= names_of(source)
    assert find_source("json.decoder", key="k", group=VERIFIERS).module == "json.decoder"


def test_not_python(folder):
    (folder / "task.py").write_text("def verify(:\n")
    with pytest.raises(BadInputError, match=r"task.py:1: not Python"):
        digest(folder)


def test_params_carry_the_digests(folder):
    """So every stage that verifies or trains is keyed by the code."""
    overrides = [
        f"verify.verifier={folder}/task.py:verify",
        "train.method=grpo",
        f"train.rewards=[{{name: mine, function: '{folder}/task.py:reward'}}]",
    ]
    before = load_params(overrides=overrides)
    assert before.verify.code_digest
    assert before.train.code_digest
    (folder / "task.py").write_text(TASK.replace("LIMIT = 3", "LIMIT = 8"))
    after = load_params(overrides=overrides)
    assert after.verify.code_digest != before.verify.code_digest
    assert after.train == before.train
    assert load_params().verify.code_digest is None
    with pytest.raises(BadInputError, match=r"verify.verifier=.*has no judge"):
        load_params(overrides=[f"verify.verifier={folder}/task.py:judge"])
