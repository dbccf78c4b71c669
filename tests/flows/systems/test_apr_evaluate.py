"""`reasonloop apr evaluate` and `trace` on a tiny model: in process, over HTTP, killed, and refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from flows.cli.app import main
from pipeline_lib.store.files import digest_file, read_json, read_json_lines
from pipeline_lib.study.study import read_study
from pipeline_lib.systems.apr.evaluation import plans
from tests.unit.engines.served_model import served
from tests.unit.systems.apr.learned_model import SOLVED, UNSOLVED, save_record, shared_model, trace

FILES = ("rollouts.jsonl", "metrics.json", "report.html")
FEW = ("--set", "evaluate.resamples=200")
WAIT_S = 120.0


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return shutil.copytree(shared_model(tmp_path_factory), tmp_path_factory.mktemp("apr") / "model")


@pytest.fixture(scope="module")
def twin(model):
    return shutil.copytree(model, model.with_name("twin"))


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    path = tmp_path_factory.mktemp("apr-problems") / "val.json"
    path.write_text(
        json.dumps([{"nums": nums, "target": target} for nums, target in (SOLVED, UNSOLVED)]),
        "utf-8",
    )
    return path


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["apr", *map(str, arguments)])
    return stopped.value.code


def evaluate(models, problems, output, *more):
    return run("evaluate", *models, "--problems", problems, "--output", output, *FEW, *more)


def digests(folder):
    return [digest_file(folder / name) for name in FILES]


def test_an_evaluation_writes_its_files(model, twin, problems, tmp_path, capsys):
    """One of two problems solved by a model and by its copy: accuracy 1/2 each, difference 0, three files."""
    assert evaluate([model, twin], problems, tmp_path / "out") == 0
    study = read_study(tmp_path / "out" / "metrics.json")
    assert [one.name for one in study.arms] == [str(model), str(twin)]
    point = study.point(str(model), "accuracy")
    assert (point.n, point.value) == (2, 0.5)
    assert study.compute["events"][f"{model}, T = 0"]["children"] == 3
    assert point.cost.critical < point.cost.drawn < point.cost.total
    [paired] = study.differences
    assert (paired.value, paired.n) == (0.0, 2)
    rows = list(read_json_lines(tmp_path / "out" / "rollouts.jsonl"))
    assert [(one["problem_id"], one["is_correct"]) for one in rows] == [
        ("val-0", True),
        ("val-1", False),
    ] * 2
    assert [one["output"] for one in rows[0]["seqs"]] == [
        one.output for one in trace(*SOLVED).sequences
    ]
    assert "50.0" in capsys.readouterr().out
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "&lt;Calling Sub Searches&gt;" in page
    assert "<Calling" not in page


def test_a_server_gives_the_rollouts_of_the_model_in_process(model, problems, tmp_path):
    """The same texts over HTTP and in process, greedily and with seeds at temperature 1."""
    with served(model) as url:
        for temperature in ("0", "1"):
            here, there = tmp_path / f"here{temperature}", tmp_path / f"there{temperature}"
            options = ("--temperature", temperature, "--samples", 5)
            assert evaluate([model], problems, here, *options) == 0
            assert evaluate([model], problems, there, *options, "--url", url) == 0
            shown = [list(read_json_lines(folder / "rollouts.jsonl")) for folder in (here, there)]
            assert shown[0] == shown[1]


@pytest.fixture
def both(model, tmp_path):
    """Copies of the model with conditions of both kinds."""
    folders = []
    for kind, name, amounts in (
        ("parallel", "Sub Call Budget", (2, 3)),
        ("serial", "Token Budget", (64, 96)),
    ):
        folder = shutil.copytree(model, tmp_path / kind)
        save_record(folder, kind=kind, conditions=[f"{name}: {amount} " for amount in amounts])
        folders.append(folder)
    return folders


def test_serial_models_have_samples_of_their_own(both, problems, tmp_path):
    """One parallel rollout of each problem and three serial ones: votes of serial alone."""
    options = ("--temperature", "1", "--serial-samples", 3)
    assert evaluate(both, problems, tmp_path / "out", *options) == 0
    study = read_study(tmp_path / "out" / "metrics.json")
    votes = [one.name for one in study.arms if one.base.endswith("vote")]
    assert votes == [f"serial vote paths={k}" for k in (1, 2, 3)]
    rows = list(read_json_lines(tmp_path / "out" / "rollouts.jsonl"))
    assert [one["kind"] for one in rows] == ["parallel"] * 2 + ["serial"] * 6


def test_conditions_and_temperatures_are_swept(both, problems, tmp_path):
    """2 models x 2 conditions x 2 temperatures: 8 arms, 4 pairs a temperature, figures."""
    sweep = ("--children", "2,3", "--tokens", "96,64", "--temperature", "0,1")
    assert evaluate(both, problems, tmp_path / "out", *sweep) == 0
    study = read_study(tmp_path / "out" / "metrics.json")
    assert [(one.base, one.settings["condition"], one.settings["T"]) for one in study.arms] == [
        (str(model), f"{name}: {amount}", temperature)
        for model, name, amounts in (
            (both[0], "Sub Call Budget", (2, 3)),
            (both[1], "Token Budget", (96, 64)),
        )
        for amount in amounts
        for temperature in (0, 1)
    ]
    assert len([one for one in study.differences if one.subset == "all"]) == 8
    rows = list(read_json_lines(tmp_path / "out" / "rollouts.jsonl"))
    assert len(rows) == 8 * 2
    assert (rows[-1]["condition"], rows[-1]["temperature"]) == ("Token Budget: 64", 1)
    assert (tmp_path / "out" / "report.html").read_text("utf-8").count("<figure>") == 3


def test_samples_are_votes_at_temperatures_above_0(both, problems, tmp_path, capsys):
    """3 samples at T = 1: votes of 1, 2 and 3, and pass@3 as an upper bound; greedily one rollout a problem."""
    options = ("--temperature", "0,1", "--samples", 3)
    assert evaluate(both, problems, tmp_path / "out", *options) == 0
    study = read_study(tmp_path / "out" / "metrics.json")
    points = {one.arm: one for one in study.points if one.measure == "accuracy"}
    votes = [one.name for one in study.arms if one.base in {"parallel vote", "serial vote"}]
    bounds = [one.name for one in study.arms if one.upper_bound]
    assert len(votes) == len(bounds) >= 2 * 3
    for vote, bound in zip(sorted(votes), sorted(bounds), strict=True):
        assert points[vote].value <= points[bound].value
    [equal, *_] = study.differences
    assert equal.arm.startswith(str(both[0]))
    assert equal.reference.startswith("serial vote")
    assert points[equal.reference].cost.drawn >= points[equal.arm].cost.drawn
    assert "oracle" in capsys.readouterr().out


def test_failed_rollouts_are_drawn_again(model, problems, tmp_path):
    """A journal with a failed rollout of the second model: its group is drawn, the first model's rows are kept."""
    output = tmp_path / "out"
    twin = shutil.copytree(model, tmp_path / "twin")
    assert evaluate([model, twin], problems, output) == 0
    whole = digests(output)
    for number in (1, 2):
        journal = output / f"rollouts-{number}.journal"
        key, piece = journal.read_text("utf-8").splitlines()
        changed = json.loads(piece)
        for row in changed["piece"]["rows"]:
            row["claim"] = "kept"
            if number == 2:
                row |= {"error": "timed out", "seqs": []}
        journal.write_text(f"{key}\n{json.dumps(changed)}\n", "utf-8")
    assert evaluate([model, twin], problems, output) == 0
    assert digests(output) != whole
    rows = list(read_json_lines(output / "rollouts.jsonl"))
    assert [row["claim"] == "kept" for row in rows] == [True, True, False, False]
    assert not any("error" in row for row in rows)


@pytest.mark.slow
def test_a_killed_evaluation_ends_as_an_unbroken_one(model, tmp_path):
    """SIGKILL after the first of six groups: the next command keeps it, and ends with equal digests."""
    problems = tmp_path / "val.json"
    numbers = [SOLVED, UNSOLVED] * 3
    problems.write_text(json.dumps([{"nums": n, "target": t} for n, t in numbers]), "utf-8")
    options = ("--samples", 65, "--temperature", 1)
    assert evaluate([model], problems, tmp_path / "whole", *options) == 0
    output = tmp_path / "killed"
    command = ["apr", "evaluate", model, "--problems", problems, "--output", output]
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", *map(str, (*command, *FEW, *options))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    journal = output / "rollouts-1.journal"
    end = time.monotonic() + WAIT_S
    while not (journal.exists() and len(journal.read_text("utf-8").splitlines()) > 1):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = journal.read_bytes()
    assert len(kept.splitlines()) < 1 + 6
    assert not (output / "metrics.json").exists()
    assert evaluate([model], problems, output, *options) == 0
    assert digests(output) == digests(tmp_path / "whole")
    assert journal.read_bytes().startswith(kept[: kept.rfind(b"\n")])


def test_a_trace_is_a_tree_with_tokens(model, tmp_path, capsys):
    """Parent, three children indented, parent; each draw with its tokens, as many as its text and end have."""
    numbers, target = SOLVED
    problem = f"{','.join(map(str, numbers))}={target}"
    page = tmp_path / "trace.html"
    assert run("trace", model, "--problem", problem, "--html", page) == 0
    shown = capsys.readouterr().out.splitlines()
    threads = [line for line in shown if line.endswith(" tokens")]
    assert [line.split(":")[0] for line in threads] == [
        "parent, round 0",
        *(f"    child {place}, round 0" for place in range(3)),
        "parent, round 1",
    ]
    drawn = sum(int(line.split()[-2]) for line in threads)
    assert f"the claim is right; tokens: drawn {drawn}, critical" in shown[-2]
    assert "tokens</span>" in page.read_text("utf-8")


@pytest.fixture
def evaluated(model, problems, tmp_path):
    """Evaluates a copy of the model with a changed record; returns the exit code and the output."""

    def run_on_copy(changes, arguments):
        changed = shutil.copytree(model, tmp_path / "changed")
        save_record(changed, **changes)
        return evaluate([changed], problems, tmp_path / "out", *arguments), tmp_path / "out"

    return run_on_copy


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, ["--children", "3"], "was never trained on 'Sub Call Budget: 3'"),
        ({}, ["--tokens", "64"], "tokens=64: is for serial models, and none is given"),
        ({"num_numbers": 4}, [], "its tokenizer is for 4 numbers"),
        ({"window": 11}, [], "window=11: the prompt of problem 'val-0' has "),
        ({}, ["--url", "http://127.0.0.1:9/v1"], "serve.url: http://127.0.0.1:9/v1/models"),
        ({}, ["--url", "http://u:secret@h/v1"], "--url: "),
        ({}, ["--url", "http://[bad/v1"], "--url: Invalid IPv6 URL"),
        ({}, ["--data", "nowhere"], "either --data DATA or --problems FILE"),
        ({}, ["--split", "valid"], "--split valid: is for --data"),
        ({}, ["--children", "3,x"], "--children 3,x: give different numbers from 0 on"),
        ({}, ["--children", "3,3"], "--children 3,3: give different numbers from 0 on"),
        ({}, ["--temperature", "1,1.0"], "--temperature 1,1.0: give different numbers from 0 on"),
        ({}, ["--temperature", "nan"], "--temperature nan: give different numbers from 0 on"),
    ],
)
def test_bad_input_is_one_line(evaluated, capsys, changes, arguments, message):
    """Refused before anything is drawn; an unreachable server is no bad input, but one line as well."""
    code, output = evaluated(changes, arguments)
    assert code == (1 if message.startswith("serve.url") else 2)
    [line] = [one for one in capsys.readouterr().err.splitlines() if one.strip()]
    assert message in line
    assert "secret" not in line
    assert not (output / "rollouts.jsonl").exists()


@pytest.mark.parametrize("missing", ["threads.json", "tokenizer.json"])
def test_a_model_without_record_or_tokenizer_is_refused(model, problems, tmp_path, capsys, missing):
    """Also at a URL, where the folder is all that is known of the model."""
    changed = shutil.copytree(model, tmp_path / "changed")
    (changed / missing).unlink()
    if missing == "tokenizer.json":
        (changed / "tokenizer_config.json").unlink(missing_ok=True)
    for more in ([], ["--url", "http://127.0.0.1:9/v1"]):
        assert evaluate([changed], problems, tmp_path / "out", *more) == 2
        [line] = [one for one in capsys.readouterr().err.splitlines() if one.strip()]
        assert str(changed) in line


def test_a_condition_of_the_other_kind_is_refused_in_a_trace(model, capsys):
    """As by `evaluate`."""
    assert run("trace", model, "--problem", "3,5,12=27", "--tokens", "64") == 2
    assert "tokens=64: is for serial models, and none is given" in capsys.readouterr().err


def test_a_damaged_record_names_its_field(model, tmp_path, capsys):
    """`threads.json` with a window that is no number."""
    changed = shutil.copytree(model, tmp_path / "changed")
    record = read_json(changed / "threads.json")
    (changed / "threads.json").write_text(json.dumps(record | {"window": "wide"}), "utf-8")
    assert run("trace", changed, "--problem", "3,5,12=27") == 2
    assert "threads.json: window: " in capsys.readouterr().err


@pytest.mark.parametrize("text", ["3,5,12", "3=27", "a,b=3", "3,5,12=27=27", ""])
def test_a_malformed_problem_of_a_trace_is_refused(model, capsys, text):
    """With the expected form."""
    assert run("trace", model, "--problem", text) == 2
    assert "expected numbers and a target, as in 3,5,12=27" in capsys.readouterr().err


def test_an_output_of_another_setting_is_refused(model, problems, tmp_path, capsys):
    """Its journal is of temperature 0; rollouts of both are never mixed."""
    assert evaluate([model], problems, tmp_path / "out") == 0
    before = digests(tmp_path / "out")
    assert evaluate([model], problems, tmp_path / "out", "--temperature", "1") == 2
    assert "is of another input, model, setting or version" in capsys.readouterr().err
    assert digests(tmp_path / "out") == before


def test_rollouts_of_other_code_are_drawn_again(model, problems, tmp_path, monkeypatch, capsys):
    """A journal holds verdicts and token counts; those of another version are refused by a command."""
    assert evaluate([model], problems, tmp_path / "out") == 0
    monkeypatch.setattr(plans, "code_digest", lambda module: f"other {module}")
    assert evaluate([model], problems, tmp_path / "out") == 2
    assert "is of another input, model, setting or version" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["error", "child_error"])
def test_failed_draws_are_made_again(model, problems, tmp_path, name):
    """Of a parent or a child: the same command draws their group again, and then has them."""
    assert evaluate([model], problems, tmp_path / "whole") == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "failed")
    journal = tmp_path / "failed" / "rollouts-1.journal"
    key, *pieces = map(json.loads, journal.read_text("utf-8").splitlines())
    pieces[0]["piece"]["rows"][1] |= {name: "timeout", "is_correct": False}
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in (key, *pieces)), "utf-8")
    assert evaluate([model], problems, tmp_path / "failed") == 0
    assert digests(tmp_path / "failed") == digests(tmp_path / "whole")


def test_a_trace_has_the_seeds_of_an_evaluation(model, problems, tmp_path, capsys):
    """Numbers in any order are the problem of the data, whose rollout is drawn at temperature 1."""
    numbers, target = SOLVED
    lines = [
        {
            "id": f"countdown-{'.'.join(map(str, numbers))}-{target}",
            "numbers": numbers,
            "target": target,
        }
    ]
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    assert evaluate([model], path, tmp_path / "out", "--temperature", "1") == 0
    [row] = read_json_lines(tmp_path / "out" / "rollouts.jsonl")
    text = f"{','.join(map(str, reversed(numbers)))}={target}"
    page = tmp_path / "trace.html"
    assert run("trace", model, "--problem", text, "--temperature", "1", "--html", page) == 0
    shown = capsys.readouterr().out
    for sequence in row["seqs"]:
        assert sequence["output"].strip("\n").split("\n")[-1] in shown
    assert f"drawn {row['tokens']['drawn']}" in shown
