"""A report on invented policies, for tests and for looking at it: `python -m` this module FOLDER."""

import math
import pathlib
import sys

import numpy as np

from pipeline_lib.params.whole import Params
from pipeline_lib.records import Group
from pipeline_lib.systems.loop.finished_run import FinishedRun
from pipeline_lib.systems.loop.report import write_report
from pipeline_lib.train.control_report import ControlReport
from tests.unit.study.judged_groups import judged_group
from tests.unit.systems.loop.invented_study import finished_run

HOSTILE = (
    '</pre><script>alert("x")</script><img src="http://example.invalid/a.png" onerror=alert(1)>'
)
STAGES = ("prepare", "bootstrap", "sample", "verify", "build", "train", "evaluate")


def invented_groups(num_problems: int, *, ease: float, num_paths: int, seed: int) -> list[Group]:
    """Groups of Beta difficulty; ``ease`` above 1 makes them easier. Some paths fail in every way."""
    difficulty = np.random.default_rng(3).beta(0.6, 1.1, size=num_problems)
    generator = np.random.default_rng(seed)
    groups = []
    for index, chance in enumerate(difficulty):
        right = generator.random(num_paths) < chance ** (1 / ease)
        odd = generator.choice(list("wwwwwwwwlfx"), size=num_paths)
        letters = "".join("c" if ok else letter for ok, letter in zip(right, odd, strict=True))
        text = HOSTILE if index == 0 else f"3+{index}={3 + index}\n{3 + index}-1={2 + index}"
        groups.append(judged_group(f"countdown-test-{index:04d}", letters, text=text))
    return groups


def demo_input(num_problems: int = 60, *, num_paths: int = 16, resamples: int = 500) -> FinishedRun:
    """Everything a report shows, invented."""
    params = Params.model_validate(
        {
            "evaluate": {"num_paths": num_paths, "resamples": resamples},
            "report": {"num_examples": 12},
        }
    )
    base = invented_groups(num_problems, ease=1.0, num_paths=num_paths, seed=1)
    control = invented_groups(num_problems, ease=1.3, num_paths=num_paths, seed=4)
    trained = invented_groups(num_problems, ease=2.4, num_paths=num_paths, seed=2)
    compute = {
        "loop": {
            "cpu_seconds": 212.4,
            "gpu_seconds": 0.0,
            "trained_tokens": 1_613_000,
            "drawn_tokens": 1_204_000,
        },
        "control": {
            "cpu_seconds": 221.9,
            "gpu_seconds": 0.0,
            "trained_tokens": 2_520_000,
            "drawn_tokens": 0,
        },
        "seconds": {
            **{stage: 3.0 * 2**index for index, stage in enumerate(STAGES)},
            "total": 381.0,
        },
        "peak_mib": {"sample": 900, "train": 640},
        "tokens": {
            "sample": {"prompt": 240_000, "completion": 612_345},
            "evaluate": {"prompt": 128_000, "completion": 301_000},
        },
    }
    return finished_run(
        {"base": base, "control": control, "trained": trained},
        params,
        compute=compute,
        control=ControlReport(
            is_base=False,
            train_problems=990,
            train_rows=1895,
            validation_problems=110,
            budget_tokens=2_516_000,
            steps=1890,
            kept_phase="control-1",
            kept_step=270,
            validation_loss=0.3602,
            base_validation_loss=0.3844,
        ),
        spending={
            "engine": "vllm",
            "requests": 24_000,
            "prompt tokens": 678_000,
            "of these cached": 320_000,
            "completion tokens": 1_814_690,
            "engine seconds": "912.4",
            "GPU seconds": "912.4",
            "cost at the prices of serve": "1.2700",
        },
        training_log=[
            {
                "step": step,
                "reward": 0.35 + 0.25 * step / 100 + 0.05 * math.sin(step * 1.7),
                "entropy": 1.2 * math.exp(-step / 80) + 0.02 * math.cos(step * 2.3),
                "mean_tokens": 21 + math.sin(step),
                "loss": 0.02 * math.cos(step),
            }
            for step in range(1, 101)
        ],
        data_counts={"problems": 2000, "all_right": 311, "all_wrong": 402, "kept": 1287},
        preparation={
            "unseen_number_sets": num_problems,
            "overlap": {
                "ngram_words": 13,
                "touched_test": 1,
                "touched_train": 1,
                "samples": [
                    {
                        "test_id": "countdown-test-0007",
                        "train_id": "countdown-train-0031",
                        "words": "a very long title is read at a rate of pages a day until it ends",
                    }
                ],
            },
        },
        lineage={
            "base_model": "3f" * 32,
            "trained_model": "a7" * 32,
            "template": "9c1d2e3f4a5b6c7d",
            "verifier": "countdown 1",
            "params": "e4" * 32,
        },
    )


if __name__ == "__main__":
    print(write_report(demo_input(400, resamples=5000), pathlib.Path(sys.argv[1]), revision={}))
