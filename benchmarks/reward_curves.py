"""Best of N by a reward model, beside votes, searches and the verifier: a language model behind a server.

On word problems: teach a language model the answer format (``reasonloop stage bootstrap``), sample and judge train
problems, train a reward model on pairs of right and wrong paths with TRL's RewardTrainer, serve it by vLLM and the
policy by ``reasonloop serve``, then ``reasonloop compute-curves`` at the policy's address on test problems that no
pair is of. Every step keeps its file, so the same command resumes. About half an hour on two cores:

    python -m benchmarks.reward_curves --folder /tmp/reward --problems 20

Needs ``make model``, whose model is the one of profile ``smol``, and ``make serve-env``.
"""

import json
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import httpx

from benchmarks.lib.command_line import make_parser
from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.params_file import load_params
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import instruction
from pipeline_lib.sampling.splits import checked_splits
from pipeline_lib.store.files import read_json_lines, write_json_lines
from pipeline_lib.verify.lines import read_lines

PROFILE = ("--profile", "smol")
POLICY_PORT, REWARD_PORT = 8410, 8420
PAIRS_PER_PROBLEM = 4
START_S = 600
STRATEGIES = (
    *("single", "oracle", "reward", "likelihood", "mean-logprob", "majority", "likelihood-vote"),
    *("beam", "tree"),
)
Turns = list[dict[str, str]]


def main() -> None:
    """Make what is missing, then print the tables of the curves."""
    parser = make_parser(__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--train-problems", type=int, default=120)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    run = folder / "run"
    model = run / "models" / "base"
    for stage in ("prepare", "bootstrap"):
        _reasonloop("stage", stage, "--workspace", run, *PROFILE)
    paths, verdicts = folder / "paths.jsonl", folder / "verdicts.jsonl"
    if not paths.exists():
        sizes = ("--num-paths", "8", "--problems", str(arguments.train_problems))
        _reasonloop(
            *("sample", model, "--split", "train", "--output", paths, *sizes, *PROFILE),
            *("--set", "sample.shots=0"),
        )
    if not verdicts.exists():
        _reasonloop("verify", paths, "--output", verdicts)
    reward = folder / "reward"
    if not (reward / "config.json").exists():
        _train(str(model), _pairs(paths, verdicts), reward)
    asked = _write_problems(folder / "problems", arguments.problems)
    with _policy(str(model), folder), _reward_model(reward, folder):
        _reasonloop(
            *(
                "compute-curves",
                f"http://127.0.0.1:{POLICY_PORT}/v1",
                "--dataset",
                f"gsm8k={asked}",
            ),
            *("--workspace", folder / "curves", *PROFILE),
            *("--set", f"serve.tokenizer={model}"),
            *("--set", f"test_time.reward.url=http://127.0.0.1:{REWARD_PORT}/v1"),
            *("--set", "test_time.budgets=[1,2,4,8]"),
            *("--set", f"test_time.strategies=[{','.join(STRATEGIES)}]"),
        )


def _pairs(paths: pathlib.Path, verdicts: pathlib.Path) -> list[dict[str, Turns]]:
    """Conversations that end right and wrong, at most `PAIRS_PER_PROBLEM` of a problem."""
    right: dict[str, list[str]] = {}
    wrong: dict[str, list[str]] = {}
    asked: dict[str, Problem] = {}
    for line, verdict in zip(read_lines(paths), read_json_lines(verdicts), strict=True):
        if verdict["strict"] is None or line.text is None:
            continue
        name = line.problem_id
        asked[name] = Problem(id=name, question=line.question, gold=line.gold, source="train")
        (right if verdict["strict"] else wrong).setdefault(name, []).append(line.text)
    found = []
    for name in sorted(right.keys() & wrong.keys()):
        user = {"role": "user", "content": instruction(asked[name])}
        for good, bad in list(product(right[name], wrong[name]))[:PAIRS_PER_PROBLEM]:
            ends = {"chosen": good, "rejected": bad}
            found.append(
                {key: [user, {"role": "assistant", "content": text}] for key, text in ends.items()}
            )
    return found


def _train(model: str, pairs: list[dict[str, Turns]], output: pathlib.Path) -> None:
    import torch  # noqa: PLC0415 - slow, and the other steps need none of it
    from datasets import Dataset  # noqa: PLC0415
    from transformers import AutoModelForSequenceClassification, AutoTokenizer  # noqa: PLC0415
    from trl.trainer.reward_config import RewardConfig  # noqa: PLC0415
    from trl.trainer.reward_trainer import RewardTrainer  # noqa: PLC0415

    print(f"{len(pairs)} pairs", flush=True)
    tokenizer = AutoTokenizer.from_pretrained(model)
    scorer = AutoModelForSequenceClassification.from_pretrained(
        model, num_labels=1, dtype=torch.float32
    )
    settings = RewardConfig(
        output_dir=str(output.with_name("reward-work")),
        per_device_train_batch_size=8,
        num_train_epochs=2,
        learning_rate=2e-5,
        max_length=384,
        logging_steps=5,
        save_strategy="no",
        report_to=[],
        seed=7,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
    )
    trainer = RewardTrainer(
        model=scorer,
        args=settings,
        train_dataset=Dataset.from_list(pairs),
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model(str(output))


def _write_problems(folder: pathlib.Path, count: int) -> pathlib.Path:
    """Test problems of the profile in GSM8K's layout."""
    params = load_params(profile="smol", overrides=[f"prepare.test_problems={count}"])
    problems = checked_splits(params.prepare, seed=params.seed).test
    rows = [
        {"question": one.question, "answer": f"#### {one.kind.show_gold(one.gold)}"}
        for one in problems
    ]
    folder.mkdir(exist_ok=True)
    write_json_lines(folder / "test.jsonl", rows)
    return folder


def _reasonloop(*arguments: object) -> None:
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    subprocess.run(command, cwd=REPOSITORY, check=True)


@contextmanager
def _policy(model: str, folder: pathlib.Path) -> Iterator[None]:
    command = [sys.executable, "-m", "flows.cli", "serve", model, "--port", str(POLICY_PORT)]
    with _server([*command, "--workspace", str(folder)], POLICY_PORT, folder / "policy.log"):
        yield


@contextmanager
def _reward_model(model: pathlib.Path, folder: pathlib.Path) -> Iterator[None]:
    python = REPOSITORY / ".venv-serve" / "bin" / "python"
    command = [
        *("env", "VLLM_CPU_KVCACHE_SPACE=1"),
        *(str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)),
        *("--served-model-name", "reward", "--runner", "pooling", "--dtype", "float32"),
        *("--host", "127.0.0.1", "--port", str(REWARD_PORT), "--max-model-len", "2048"),
    ]
    with _server(command, REWARD_PORT, folder / "reward.log"):
        yield


@contextmanager
def _server(command: list[str], port: int, log: pathlib.Path) -> Iterator[None]:
    """A server on this machine, once it lists its models; stopped at the end."""
    with log.open("wb") as stream:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=stream, stderr=stream)
    try:
        deadline = time.monotonic() + START_S
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise ChildProcessError(f"{command[1:4]}: no answer; see {log}")
            time.sleep(1)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _answers(port: int) -> bool:
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/v1/models", trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.is_success and "data" in json.loads(answer.text)


if __name__ == "__main__":
    main()
