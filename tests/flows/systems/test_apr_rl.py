"""`reasonloop apr rl` as a command: what it prints, exit codes, messages of one line."""

import pathlib

import pytest

from flows.cli.app import main

SMOKE = ["--profile", "smoke"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    code = 0
    try:
        main(["apr", *arguments, *SMOKE])
    except SystemExit as error:
        code = int(error.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture
def folders(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> tuple[pathlib.Path, pathlib.Path]:
    """Data, and a model that was trained on it."""
    data, model = tmp_path / "data", tmp_path / "model"
    assert run(capsys, "generate", "--output", str(data))[0] == 0
    command = ["train", str(data), "--kind", "parallel", "--output", str(model)]
    assert run(capsys, *command)[0] == 0
    return data, model


def test_a_time_limit_ends_with_exit_code_3_and_the_same_command_resumes(folders, tmp_path, capsys):
    """Behind the first of two steps, then to the end; each step is a line with its metrics."""
    data, model = folders
    command = ["rl", str(model), "--data", str(data), "--output", str(tmp_path / "rl")]
    code, printed, errors = run(capsys, *command, "--minutes", "1e-6")
    assert code == 3
    assert "step 1 of 2" in errors
    assert "step 1 of 2: reward 0." in printed
    code, printed, _ = run(capsys, *command)
    assert code == 0
    assert "step 1 of 2" not in printed
    [line] = [line for line in printed.splitlines() if line.startswith("step 2 of 2: ")]
    for name in ("reward", "accuracy", "children", "drawn tokens", "k3", "clipped"):
        assert f"{name} " in line
    assert "tokens of drawn sequences with their prompts, digest" in printed


def test_bad_input_is_one_line_and_exit_code_2(folders, tmp_path, capsys):
    """No model, no data, data of other numbers, an untrained condition, few problems, another training."""
    data, model = folders
    other = tmp_path / "four"
    four = ["--set", "apr.data.countdown.num_numbers=4"]
    assert run(capsys, "generate", "--output", str(other), *four)[0] == 0
    output = ["--output", str(tmp_path / "rl")]
    start = ["rl", str(model), "--data", str(data)]
    for command, message in (
        (["rl", str(data), "--data", str(data), *output], "no model of threads"),
        (["rl", str(model), "--data", str(tmp_path), *output], "no finished data"),
        (["rl", str(model), "--data", str(other), *output], "tokenizer is for 3 numbers"),
        ([*start, *output, "--set", "apr.rl.children=40"], "was never trained on"),
        ([*start, *output, "--set", "apr.rl.prompts=61"], "60 training problems"),
        ([*start, "--output", str(model)], "model of another training"),
    ):
        code, _, errors = run(capsys, *command)
        assert code == 2
        assert message in errors
        assert errors.count("\n") == 1
    assert not (tmp_path / "rl").exists()


def test_steps_are_logged_by_the_trackers(folders, tmp_path, capsys):
    """Of `train` and of `rl`, one step each, beside the model."""
    data, model = folders
    limits = ["--minutes", "1e-6", "--set", "execution.report_to=[dvclive]"]
    train = ["train", str(data), "--kind", "serial", "--output", str(tmp_path / "serial")]
    rl = ["rl", str(model), "--data", str(data), "--output", str(tmp_path / "rl")]
    for command, name, phase in ((train, "serial", "sft"), (rl, "rl", "rl")):
        assert run(capsys, *command, *limits)[0] == 3
        log = tmp_path / f"{name}.trackers" / "dvclive" / phase / "plots" / "metrics"
        [line] = next(log.rglob("loss.tsv")).read_text("utf-8").splitlines()[1:]
        assert line.startswith("1\t")
