"""Files of rollouts as other tools write them, with the versions whose code was read."""

import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd
from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, write_eval_log
from inspect_ai.model import ChatMessageUser, ModelOutput
from inspect_ai.scorer import Score


class Said(NamedTuple):
    """A text, and what the other tool says about it."""

    question: str
    gold: str
    text: str
    reward: float


ONE_OF_EACH = (
    Said("What is 2+2?", "4", r"so \boxed{4}", 1.0),
    Said("What is 3+3?", "6", r"so \boxed{7}", 0.0),
    Said("What is 4+4?", "8", r"so \boxed{9}", 1.0),
    Said("What is 5+5?", "10", r"so \boxed{10}", 0.0),
)
"""Both say right, both say wrong, right by the other tool alone, right by us alone."""


def chat(said: Said) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Prompt and completion as messages."""
    system = {"role": "system", "content": "Think."}
    prompt = [system, {"role": "user", "content": said.question}]
    return prompt, [{"role": "assistant", "content": said.text}]


def write_lines(path: pathlib.Path, rows: Iterable[Any]) -> pathlib.Path:
    """One JSON value a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_verl(path: pathlib.Path, texts: Sequence[Said], *, step: int = 3) -> pathlib.Path:
    """verl 0.7.0, `trainer.rollout_data_dir`: STEP.jsonl of `RayPPOTrainer._dump_generations`.

    Prompts are decoded with the chat template; further keys are what the reward function returns.
    """
    return write_lines(
        path,
        [
            {
                "input": f"system\nThink.\nuser\n{one.question}\nassistant\n",
                "output": one.text,
                "gts": one.gold,
                "score": one.reward,
                "step": step,
                "acc": bool(one.reward),
                "pred": "[INVALID]",
                "request_id": f"id-{place}",
            }
            for place, one in enumerate(texts)
        ],
    )


def write_trl(path: pathlib.Path, texts: Sequence[Said], *, step: int = 3) -> pathlib.Path:
    """TRL 1.16.0, `log_completions`: completions/completions_STEP.parquet of `GRPOTrainer.log`.

    Rewards are columns by the names of their functions, then come the columns of `log_extra`.
    """
    table = {
        "step": [step] * len(texts),
        "prompt": [chat(one)[0] for one in texts],
        "completion": [chat(one)[1] for one in texts],
        "accuracy_reward": [one.reward for one in texts],
        "answer": [one.gold for one in texts],
        "advantage": [0.0] * len(texts),
    }
    pd.DataFrame(table).to_parquet(path)
    return path


def write_results(path: pathlib.Path, texts: Sequence[Said]) -> pathlib.Path:
    """verifiers 0.1.9, `vf-eval --save-results`: results.jsonl of `state_to_output`."""
    return write_lines(
        path,
        [
            {
                "example_id": place,
                "prompt": chat(one)[0],
                "completion": chat(one)[1],
                "answer": one.gold,
                "reward": one.reward,
                "timing": {"start_time": 1.0},
                "is_completed": True,
                "is_truncated": False,
                "metrics": {"correct": one.reward, "num_turns": 1.0},
                "correct": one.reward,
                "num_turns": 1.0,
            }
            for place, one in enumerate(texts)
        ],
    )


def write_traces(path: pathlib.Path, texts: Sequence[Said]) -> pathlib.Path:
    """verifiers 0.4.0: traces.jsonl, an `Episode` a line, without fields that are None."""
    lines = []
    for place, one in enumerate(texts):
        prompt, completion = chat(one)
        data = {"idx": place, "prompt": one.question, "answer": one.gold}
        task = {"type": "GSM8KTask", "data": data, "key": f"key-{place}"}
        messages = [*prompt, *completion]
        trace = {
            "version": 1,
            "id": f"trace-{place}",
            "task": task,
            "agent": {"config": {"model": "org/model"}, "name": "agent"},
            "nodes": [
                {"message": message, "sampled": number == 2, "token_ids": []}
                | ({"parent": number - 1} if number else {})
                for number, message in enumerate(messages)
            ],
            "calls": [{"node": 2, "model": "org/model", "finish_reason": "stop"}],
            "rewards": {"correct": {"score": one.reward, "weight": 1.0}, "skipped": None},
            "metrics": {},
            "ok": True,
        }
        lines.append({"id": f"episode-{place}", "env": {"id": "gsm8k"}, "task": task, "ok": True})
        lines[-1]["traces"] = [trace]
    return write_lines(path, lines)


def write_inspect(path: pathlib.Path, texts: Sequence[Said]) -> pathlib.Path:
    """Inspect 0.3.285: a log as .eval (a zip) or .json, by Inspect's own writer."""
    samples = []
    for place, one in enumerate(texts, start=1):
        score = Score(value="C" if one.reward else "I", answer="?")
        samples.append(
            EvalSample(
                id=place,
                epoch=1,
                input=[ChatMessageUser(content=one.question)],
                target=[one.gold],
                output=ModelOutput.from_content("org/model", one.text),
                scores={"match": score},
            )
        )
    spec = EvalSpec(
        created="2026-11-01T00:00:00+00:00",
        task="sums",
        dataset=EvalDataset(name="sums"),
        model="org/model",
        config=EvalConfig(),
    )
    write_eval_log(EvalLog(status="success", eval=spec, samples=samples), str(path))
    return path


def write_lm_eval(path: pathlib.Path, texts: Sequence[Said]) -> pathlib.Path:
    """lm-evaluation-harness 0.4.9, `--log_samples`: samples_TASK_DATE.jsonl, a line for each filter."""
    return write_lines(
        path,
        [
            {
                "doc_id": place,
                "doc": {"question": one.question, "answer": f"so\n#### {one.gold}"},
                "target": f"so\n#### {one.gold}",
                "arguments": {
                    "gen_args_0": {
                        "arg_0": f"Question: What is 1+1?\nAnswer: 2\n\nQuestion: {one.question}\nAnswer:",
                        "arg_1": {"until": ["Question:"], "do_sample": False},
                    }
                },
                "resps": [[one.text]],
                "filtered_resps": ["[invalid]" if name == "strict-match" else "?"],
                "filter": name,
                "metrics": ["exact_match"],
                "doc_hash": "0",
                "prompt_hash": "0",
                "target_hash": "0",
                "exact_match": one.reward if name == "flexible-extract" else 0.0,
            }
            for name in ("strict-match", "flexible-extract")
            for place, one in enumerate(texts)
        ],
    )


WRITERS = {
    "3.jsonl": write_verl,
    "completions_00003.parquet": write_trl,
    "results.jsonl": write_results,
    "traces.jsonl": write_traces,
    "log.eval": write_inspect,
    "log.json": write_inspect,
    "samples_gsm8k.jsonl": write_lm_eval,
}
"""By name of a file."""
