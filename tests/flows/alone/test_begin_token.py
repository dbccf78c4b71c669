"""A base model that was taught with a begin token, drawn by every engine, trained and evaluated.

With the token it answers every problem; without it every answer is wrong, so no path can leave it out.
"""

import json
import pathlib
from collections.abc import Sequence

import pytest
import torch
from tokenizers import processors
from transformers import AutoModelForCausalLM

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.params_file import load_params
from pipeline_lib.problems.splits import make_splits
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.train.bootstrap import make_tokenizer, save_blank_llama
from pipeline_lib.verify.golds import open_gold_check
from tests.unit.engines.served_model import MODEL, served

pytestmark = pytest.mark.slow
ENVIRONMENT = REPOSITORY / ".venv-serve"
WRONG = "1+1=2"
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 128,
}


def all_problems() -> list[Problem]:
    """The problems of profile smoke, with solutions."""
    with open_gold_check() as gold_problem:
        params = load_params(profile="smoke")
        splits = make_splits(params.prepare, seed=params.seed, gold_problem=gold_problem)
    return [*splits.train, *splits.test]


def teach(folder: pathlib.Path, problems: Sequence[Problem]) -> pathlib.Path:
    """A Llama that solves ``problems`` behind ``<bos>``, and answers `WRONG` without it."""
    rows = solution_rows(problems, None)
    tokenizer = make_tokenizer([row["prompt"] + row["completion"] for row in rows])
    tokenizer.add_special_tokens({"bos_token": "<bos>"})
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", tokenizer.bos_token_id)]
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        save_blank_llama(folder, tokenizer, **SIZES)
        model = AutoModelForCausalLM.from_pretrained(folder)
        texts = []
        for row in rows:
            for begin, completion in (([tokenizer.bos_token_id], row["completion"]), ([], WRONG)):
                prompt = begin + tokenizer(row["prompt"], add_special_tokens=False)["input_ids"]
                answer = tokenizer(completion, add_special_tokens=False)["input_ids"]
                texts.append((prompt, [*answer, tokenizer.eos_token_id]))
        longest = max(len(prompt) + len(answer) for prompt, answer in texts)
        ids_BL = torch.full((len(texts), longest), tokenizer.pad_token_id)
        labels_BL = torch.full((len(texts), longest), -100)
        for row, (prompt, answer) in enumerate(texts):
            end = len(prompt) + len(answer)
            ids_BL[row, :end] = torch.tensor(prompt + answer)
            labels_BL[row, len(prompt) : end] = torch.tensor(answer)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for _ in range(300):
            loss = model(input_ids=ids_BL, labels=labels_BL).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if loss < 1e-3:
                break
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def taught(tmp_path_factory) -> pathlib.Path:
    return teach(tmp_path_factory.mktemp("taught") / "model", all_problems())


def accuracy(reasonloop, model: str, folder: pathlib.Path, *settings: str) -> float:
    """Greedy accuracy on the test problems, by the commands that a user has."""
    folder.mkdir()
    paths, verdicts = folder / "paths.jsonl", folder / "verdicts.jsonl"
    given = ["sample.temperature=0", "sample.num_paths=1", *settings]
    sets = [part for setting in given for part in ("--set", setting)]
    done = reasonloop("sample", model, "--output", paths, "--profile", "smoke", *sets)
    assert done.returncode == 0, done.stderr
    done = reasonloop("verify", paths, "--output", verdicts)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in verdicts.read_text("utf-8").splitlines()]
    assert len(rows) == 24
    return sum(row["strict"] for row in rows) / len(rows)


def test_every_engine_begins_with_the_token(taught, reasonloop, tmp_path):
    """All right in process and at a server, whose client tokenizes with the model's own tokenizer."""
    assert accuracy(reasonloop, str(taught), tmp_path / "embedded") == 1
    with served(taught) as url:
        at = ("serve.engine=url", f"serve.url={url}", f"serve.tokenizer={taught}")
        assert accuracy(reasonloop, MODEL, tmp_path / "served", *at) == 1


@pytest.mark.skipif(not ENVIRONMENT.exists(), reason="no vLLM: make serve-env")
def test_vllm_begins_with_the_token(taught, reasonloop, tmp_path):
    """The same at a real server of another project."""
    assert accuracy(reasonloop, str(taught), tmp_path / "vllm", "serve.engine=vllm") == 1


def test_without_the_token_every_answer_is_wrong(taught, reasonloop, tmp_path):
    """So the accuracy above shows the token: a prompt whose tokenizer adds none gets `WRONG`."""
    from transformers import AutoTokenizer  # noqa: PLC0415

    model = AutoModelForCausalLM.from_pretrained(taught)
    tokenizer = AutoTokenizer.from_pretrained(taught)
    problem = all_problems()[0]
    ids = tokenizer(render(problem, None), add_special_tokens=False, return_tensors="pt")
    drawn = model.generate(ids["input_ids"], max_new_tokens=24, do_sample=False)
    assert (
        tokenizer.decode(drawn[0, ids["input_ids"].shape[1] :], skip_special_tokens=True) == WRONG
    )


def test_a_run_keeps_what_the_model_knows(taught, reasonloop, tmp_path):
    """Base and trained policy solve the test problems; the other trainers are in the model contract."""
    done = reasonloop(
        *("run", "--workspace", tmp_path, "--profile", "smoke", "--runner", "thread"),
        *("--set", f"bootstrap.model={taught}", "--set", "train.method=sft"),
        *("--set", "sample.temperature=0.5", "--set", "train.entropy_coef=0"),
        *("--set", "train.control=false"),
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "reports" / "summary.json").read_text("utf-8"))
    assert summary["reference"] > 0.95
    assert summary["arm"] > 0.95
