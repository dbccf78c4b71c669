"""`reasonloop apr evaluate` and `trace` on a tiny model: in process, over HTTP, killed, and refused."""

import json
import shutil

import pytest

from flows.cli.app import main
from pipeline_lib.store.files import digest_file, read_json, read_json_lines
from pipeline_lib.study.study import read_study
from pipeline_lib.systems.apr.evaluation import plans
from tests.unit.engines.served_model import served
from tests.unit.systems.apr.learned_model import SOLVED, UNSOLVED, save_record, shared_model, trace
from tests.waiting import kill_when

FILES = ("rollouts.jsonl", "metrics.json", "report.html")
FEW = ("--set", "evaluate.resamples=200")


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


def num_lines(journal):
    return len(journal.read_text("utf-8").splitlines()) if journal.exists() else 0


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
    assert (tmp_path / "out" / "report.html").read_text("utf-8").count("<figure>") == 5


@pytest.mark.parametrize("fault", [{"error": "timed out", "seqs": []}, {"child_error": "timeout"}])
def test_failed_rollouts_are_drawn_again(model, problems, tmp_path, fault):
    """A journal whose second model has failed rollouts, of a parent or a child: its group is drawn, the first
    model's rows are kept.
    """
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
                row.update(fault)
        journal.write_text(f"{key}\n{json.dumps(changed)}\n", "utf-8")
    assert evaluate([model, twin], problems, output) == 0
    assert digests(output) != whole
    rows = list(read_json_lines(output / "rollouts.jsonl"))
    assert [row["claim"] == "kept" for row in rows] == [True, True, False, False]
    assert not any("error" in row or "child_error" in row for row in rows)


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
    journal = output / "rollouts-1.journal"
    kill_when(lambda: num_lines(journal) > 1, *command, *FEW, *options)
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
        ({"num_numbers": 4}, [], "is for 4 numbers"),
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
def test_a_model_without_record_or_tokenizer_is_refused(
    refused, model, problems, tmp_path, missing
):
    """Also at a URL, where the folder is all that is known of the model."""
    changed = shutil.copytree(model, tmp_path / "changed")
    (changed / missing).unlink()
    if missing == "tokenizer.json":
        (changed / "tokenizer_config.json").unlink(missing_ok=True)
    command = ("apr", "evaluate", changed, "--problems", problems, "--output", tmp_path / "out")
    for more in ([], ["--url", "http://127.0.0.1:9/v1"]):
        assert str(changed) in refused(*command, *more)


@pytest.mark.parametrize(
    ("problem", "more", "message"),
    [
        ("3,5,12=27", ["--tokens", "64"], "tokens=64: is for serial models, and none is given"),
        *(
            (text, [], "expected numbers and a target, as in 3,5,12=27")
            for text in ("3,5,12", "3=27", "a,b=3", "3,5,12=27=27", "")
        ),
    ],
)
def test_bad_input_of_a_trace_is_one_line(refused, model, problem, more, message):
    """As of `evaluate`, and a problem in another form."""
    assert message in refused("apr", "trace", model, "--problem", problem, *more)


def test_a_damaged_record_names_its_field(refused, model, tmp_path):
    """`threads.json` with a window that is no number."""
    changed = shutil.copytree(model, tmp_path / "changed")
    record = read_json(changed / "threads.json")
    (changed / "threads.json").write_text(json.dumps(record | {"window": "wide"}), "utf-8")
    line = refused("apr", "trace", changed, "--problem", "3,5,12=27")
    assert "threads.json: window: " in line


def test_an_output_of_another_setting_or_code_is_refused(
    refused, model, problems, tmp_path, monkeypatch
):
    """Its journal is of temperature 0, with verdicts and counts of this code; rollouts are never mixed."""
    assert evaluate([model], problems, tmp_path / "out") == 0
    before = digests(tmp_path / "out")
    command = ("apr", "evaluate", model, "--problems", problems, "--output", tmp_path / "out", *FEW)
    other = "is of another input, model, setting or version"
    assert other in refused(*command, "--temperature", "1")
    assert digests(tmp_path / "out") == before
    monkeypatch.setattr(plans, "code_digest", lambda module: f"other {module}")
    assert other in refused(*command)


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
