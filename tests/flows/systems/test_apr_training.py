"""`reasonloop apr generate`, `train` and `rl` as commands: what they print, exit codes, messages of one line."""

import pytest

SMOKE = ("--profile", "smoke")


@pytest.fixture
def data(called, tmp_path):
    done = called("apr", "generate", "--output", tmp_path / "data", *SMOKE)
    assert done.returncode == 0
    assert "parallel: " in done.stdout
    return tmp_path / "data"


@pytest.fixture
def model(called, data):
    """A model that was trained on the data."""
    folder = data.with_name("parallel")
    done = called("apr", "train", data, "--kind", "parallel", "--output", folder, *SMOKE)
    assert done.returncode == 0
    return folder


def test_a_time_limit_ends_with_exit_code_3_and_the_same_command_resumes(
    called, data, model, tmp_path
):
    """At once, behind the first step; then to the end. Each step of `rl` is a line with its metrics."""
    train = ("apr", "train", data, "--kind", "serial", "--output", tmp_path / "model", *SMOKE)
    rl = ("apr", "rl", model, "--data", data, "--output", tmp_path / "rl", *SMOKE)
    for command in (train, rl):
        stopped = called(*command, "--minutes", "1e-6")
        assert stopped.returncode == 3
        assert "step 1 of" in stopped.stderr
        assert not command[-3].exists()
    assert "step 1 of 2: reward 0." in stopped.stdout
    assert "trained tokens" in called(*train).stdout
    printed = called(*rl).stdout
    assert "step 1 of 2" not in printed
    [line] = [line for line in printed.splitlines() if line.startswith("step 2 of 2: ")]
    for name in ("reward", "accuracy", "children", "drawn tokens", "k3", "clipped"):
        assert f"{name} " in line
    assert "tokens of drawn sequences with their prompts, digest" in printed


def test_bad_input_of_data_and_training_is_one_line(refused, data, tmp_path):
    """Too few problems, two numbers, a window that holds no prompt, no data."""
    train = ("--kind", "parallel", "--output", tmp_path / "model")
    generate = ("generate", "--output", tmp_path / "other")
    for command, message in (
        ((*generate, "--set", "apr.data.countdown.high=1"), "distinct problems"),
        ((*generate, "--set", "apr.data.countdown.num_numbers=2"), "at least 3 numbers"),
        (("train", data, *train, "--set", "apr.sft.step_tokens=50"), "step_tokens=50"),
        (("train", tmp_path, *train), "no finished data"),
    ):
        assert message in refused("apr", *command, *SMOKE)


def test_bad_input_of_reinforcement_learning_is_one_line(called, refused, data, model, tmp_path):
    """No model, no data, data of other numbers, an untrained condition, few problems, another training."""
    other, output = tmp_path / "four", ("--output", tmp_path / "rl")
    four = ("--set", "apr.data.countdown.num_numbers=4")
    assert called("apr", "generate", "--output", other, *four, *SMOKE).returncode == 0
    start = (model, "--data", data)
    for command, message in (
        ((data, "--data", data, *output), "no model of threads"),
        ((model, "--data", tmp_path, *output), "no finished data"),
        ((model, "--data", other, *output), "is for 3 numbers"),
        ((*start, *output, "--set", "apr.rl.children=40"), "was never trained on"),
        ((*start, *output, "--set", "apr.rl.prompts=61"), "60 training problems"),
        ((*start, "--output", model), "model of another training"),
    ):
        assert message in refused("apr", "rl", *command, *SMOKE)
    assert not (tmp_path / "rl").exists()


def test_steps_are_logged_by_the_trackers(called, data, model, tmp_path):
    """Of `train` and of `rl`, one step each, beside the model."""
    limits = ("--minutes", "1e-6", "--set", "execution.report_to=[dvclive]", *SMOKE)
    train = ("train", data, "--kind", "serial", "--output", tmp_path / "serial")
    rl = ("rl", model, "--data", data, "--output", tmp_path / "rl")
    for command, name, phase in ((train, "serial", "sft"), (rl, "rl", "rl")):
        assert called("apr", *command, *limits).returncode == 3
        log = tmp_path / f"{name}.trackers" / "dvclive" / phase / "plots" / "metrics"
        [line] = next(log.rglob("loss.tsv")).read_text("utf-8").splitlines()[1:]
        assert line.startswith("1\t")
