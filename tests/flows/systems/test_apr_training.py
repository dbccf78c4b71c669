"""`reasonloop apr generate` and `train` as commands: exit codes and messages of one line."""

import pathlib

import pytest

from flows.cli.app import main

SMOKE = ["--profile", "smoke"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    code = 0
    try:
        main(arguments)
    except SystemExit as error:
        code = int(error.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture
def data(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> pathlib.Path:
    folder = tmp_path / "data"
    code, printed, _ = run(capsys, "apr", "generate", "--output", str(folder), *SMOKE)
    assert code == 0
    assert "parallel: " in printed
    return folder


def test_a_time_limit_ends_with_exit_code_3_and_the_same_command_resumes(data, tmp_path, capsys):
    """At once, behind the first step; then to the end, with what the model was trained on."""
    command = ["apr", "train", str(data), "--kind", "serial", "--output", str(tmp_path / "model")]
    code, _, errors = run(capsys, *command, *SMOKE, "--minutes", "1e-6")
    assert code == 3
    assert "step 1 of" in errors
    assert not (tmp_path / "model").exists()
    code, printed, _ = run(capsys, *command, *SMOKE)
    assert code == 0
    assert "trained tokens" in printed


def test_bad_input_is_one_line_and_exit_code_2(data, tmp_path, capsys):
    """Too few problems, two numbers, a window that holds no prompt, no data."""
    train = ["apr", "train", str(data), "--kind", "parallel", "--output", str(tmp_path / "model")]
    generate = ["apr", "generate", "--output", str(tmp_path / "other")]
    for command, message in (
        ([*generate, "--set", "apr.data.countdown.high=1"], "distinct problems"),
        ([*generate, "--set", "apr.data.countdown.num_numbers=2"], "at least 3 numbers"),
        ([*train, "--set", "apr.sft.step_tokens=50"], "step_tokens=50"),
        (["apr", "train", str(tmp_path), *train[3:]], "no finished data"),
    ):
        code, _, errors = run(capsys, *command, *SMOKE)
        assert code == 2
        assert message in errors
        assert errors.count("\n") == 1
