"""`reasonloop classmate probe` on a tiny peer: in process, over HTTP, killed, and refused."""

import json

import pytest

from flows.cli.app import main
from pipeline_lib.params.paths import BootstrapParams, CountdownParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.train.bootstrap import make_base_policy
from tests.unit.engines.served_model import MODEL, served
from tests.waiting import kill_when

PROBLEMS = generate(CountdownParams(num_numbers=3, high=9), seed=4, count=8)
FEW = ("--set", "evaluate.resamples=200", "--set", "classmate.max_new_tokens=16")


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    """A base policy that has nearly learned the solutions of the problems by heart."""
    folder = tmp_path_factory.mktemp("classmate") / "peer"
    params = BootstrapParams(hidden_size=32, num_layers=1, num_heads=2, steps=150, batch_size=16)
    make_base_policy(solution_rows(PROBLEMS, None), folder, params=params, seed=1, key="peer")
    return folder


@pytest.fixture
def chains(tmp_path):
    return written(tmp_path, [chain(problem) for problem in PROBLEMS])


def chain(problem):
    gold = problem.kind.write_line(problem.gold)
    return {"id": problem.id, "kind": "countdown", **gold, "text": problem.solution}


def written(tmp_path, rows):
    path = tmp_path / "chains.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["classmate", "probe", *map(str, (*arguments, *FEW))])
    return stopped.value.code


def test_a_probe_writes_lines_tables_and_a_page(peer, chains, tmp_path, capsys):
    """Eight right chains, two names for one model: a line each, success 1 from the whole chain, which gives its
    answer away; one curve table a peer, and a page."""
    output, page = tmp_path / "out.jsonl", tmp_path / "page.html"
    named = ("--classmate", f"a={peer}", "--classmate", f"b={peer}")
    assert run(chains, *named, "--output", output, "--html", page, "--shuffled") == 0
    rows = list(read_json_lines(output))
    assert [row["id"] for row in rows] == [problem.id for problem in PROBLEMS]
    for row in rows:
        assert list(row["peers"]) == ["a", "b"]
        assert row["peers"]["a"] == row["peers"]["b"]
        assert row["peers"]["a"]["kept"] == [0, 1, 2]
        assert len(row["continuations"]["a"][0]) == 8
        assert row["leak"] == [False, False, True]
    whole = [found["text"] == "" and found["right"] for row in rows for found in last(row)]
    assert sum(whole) > len(whole) / 2
    shown = capsys.readouterr().out
    assert "chain peer=a share=.5" in shown
    assert "shuffled peer=b share=1" in shown
    assert "Steps by lift" in shown
    assert "Success of classmates" in page.read_text("utf-8")


def last(row):
    return row["continuations"]["a"][-1]


def test_a_server_gives_the_lines_of_the_model_in_process(peer, chains, tmp_path):
    """The same continuations with seeds at temperature 0.7, rendered by the same tokenizer."""
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    assert run(chains, "--classmate", f"a={peer}", "--output", here) == 0
    with served(peer) as url:
        at = ("--url", url, "--set", f"serve.tokenizer={peer}")
        assert run(chains, "--classmate", f"a={MODEL}", "--output", there, *at) == 0
    assert list(read_json_lines(here)) == list(read_json_lines(there))


@pytest.mark.slow
def test_a_killed_probe_ends_as_an_unbroken_one(peer, chains, tmp_path):
    """SIGKILL after the first of eight groups: the next command keeps it, and ends with equal bytes."""
    options = (chains, "--classmate", f"a={peer}", "--samples", 90, "--output")
    assert run(*options, tmp_path / "whole.jsonl") == 0
    output = tmp_path / "killed.jsonl"
    journal = tmp_path / "killed.jsonl.partial"

    def lines():
        return journal.read_text("utf-8").splitlines() if journal.exists() else []

    kill_when(lambda: len(lines()) > 1, "classmate", "probe", *options, output, *FEW)
    kept = lines()
    assert len(kept) < 1 + len(PROBLEMS)
    assert run(*options, output) == 0
    assert output.read_text("utf-8") == (tmp_path / "whole.jsonl").read_text("utf-8")
    assert not journal.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--classmate", "PEER"), "give NAME=MODEL"),
        (("--classmate", "=PEER"), "give NAME=MODEL"),
        (("--classmate", "a=PEER", "--classmate", "a=PEER"), "'a' is given to two classmates"),
        (("--classmate", "a=./no/such/model"), "./no/such/model"),
        (("--classmate", "a=PEER", "--samples", 0), "--samples"),
        (("--classmate", "a=PEER", "--engine", "url"), "url=null"),
        (("--classmate", "a=m", "--url", "http://127.0.0.1:9/v1"), "set serve.tokenizer"),
        (("--classmate", "a=m", "--url", "http://127.0.0.1:9/v1", "--engine", "vllm"), "give one"),
        (("--classmate", "a=PEER", "--html", "chains.jsonl"), "is the input itself"),
        (("--classmate", "a=PEER", "--html", "out.jsonl"), "is the --output"),
    ],
)
def test_unusable_options(refused, peer, chains, tmp_path, monkeypatch, *, options, message):
    """One line, exit code 2, nothing written."""
    monkeypatch.chdir(tmp_path)
    given = (str(option).replace("PEER", str(peer)) for option in options)
    assert message in refused("classmate", "probe", chains, *given, "--output", "out.jsonl", *FEW)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chains.jsonl"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no chains"),
        ([chain(PROBLEMS[0])] * 2, "is also at line 1"),
        ([{"id": "w", "gold": "18", "text": "It is 18."}], "'w': question: is missing"),
        ([chain(PROBLEMS[0]) | {"text": ""}], "text: has no step"),
    ],
)
def test_unusable_chains(refused, peer, tmp_path, rows, message):
    """One line, exit code 2, before the peer is asked: nothing is written."""
    source = written(tmp_path, rows)
    options = ("--classmate", f"a={peer}", "--output", tmp_path / "out.jsonl", *FEW)
    assert message in refused("classmate", "probe", source, *options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chains.jsonl"]
