"""Several processes train as one does: losses, gradients, weights, draws; resume with another number."""

import json
from dataclasses import replace

import pytest
from safetensors.torch import load_file

from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import Method
from pipeline_lib.store.files import read_json_lines
from tests.unit.train.ranks import ExitAt, run_ranks, train_each, train_phase, train_sharded

LORA = {"lora": {"enabled": True, "rank": 4}}
NO_WARM_START = {"warm_start_steps": 0, "entropy_coef": 0.0}
CASES = {
    "sft": (Method.SFT, {}),
    "sft-lora": (Method.SFT, LORA),
    "dpo": (Method.DPO, {}),
    "grpo": (Method.GRPO, NO_WARM_START),
    "grpo-lora": (Method.GRPO, LORA | NO_WARM_START | {"updates_per_rollout": 2}),
    "rloo": (Method.RLOO, NO_WARM_START),
    "grpo-endpoint": (Method.GRPO, LORA | NO_WARM_START | {"rollouts": "endpoint"}),
    "ppo": (Method.PPO, NO_WARM_START | {"ppo": {"kl_coef": 0.1, "minibatches": 2}}),
}
SHARDED = ("sft", "sft-lora", "dpo", "grpo-endpoint")
PHASES = {"adamw": 1e-5, "muon": 1e-3, "rollouts": 1e-5}
"""Trainings by tokens and on rollouts, with the largest difference of a weight: Muon iterates in bfloat16."""

COMPARED = ("loss", "grad_norm", "reward")


@pytest.fixture(scope="module")
def requests(half_solved, request_for):
    """A request for each case, by a function of its output; four prompts, each once in a step."""
    [row], [problem] = half_solved["rows"], half_solved["problems"]
    others = ["2 and 2", "2 and 3", "3 and 2", "3 and 3"]
    rows = [
        row | {"problem_id": text, "prompt": row["prompt"].replace("2 and 2", text)}
        for text in others
    ]
    fields = {
        "base": half_solved["base"],
        "rows": rows,
        "warm_start_rows": rows,
        "problems": [replace(problem, id=text) for text in others],
        "serve": ServeParams(port=8470),
    }

    def make(folder, **changes):
        return {
            name: request_for(method, folder / name, train=train | changes, **fields)
            for name, (method, train) in CASES.items()
            if "sharding" not in changes or name in SHARDED
        }

    return make


def log_of(folder):
    """The log, rounded metrics alone."""
    return [
        {name: row[name] for name in COMPARED if name in row}
        for row in read_json_lines(folder / "training_log.jsonl")
    ]


def difference(folder, other):
    """The largest of a weight."""
    weights, others = (load_file(one / "model.safetensors") for one in (folder, other))
    assert weights.keys() == others.keys()
    return max(float((weights[key] - others[key]).abs().max()) for key in weights)


def draws_of(folder):
    """Tokens drawn at each step, by rank."""
    steps = {}
    for place in sorted(folder.glob("*.json")):
        steps.setdefault(place.name[:3], []).extend(json.loads(place.read_text()))
    return steps


@pytest.fixture(scope="module")
def trained(requests, tmp_path_factory):
    """The folder of the trainings by one and by two processes."""
    root = tmp_path_factory.mktemp("processes")
    for world in (1, 2):
        found = run_ranks(world, train_each, requests(root / f"{world}", processes=world))
        assert found == [dict.fromkeys(CASES)] * world
    return root


@pytest.mark.parametrize("name", CASES)
def test_two_processes_train_as_one(name, trained):
    """The same global batch for six steps: equal up to the order of sums."""
    one, two = (trained / f"{world}" / name for world in (1, 2))
    for mine, other in zip(log_of(one), log_of(two), strict=True):
        assert mine == pytest.approx(other, abs=1e-5)
    assert difference(one, two) < 1e-5
    drawn = draws_of(trained / "1" / "draws" / name)
    assert drawn == draws_of(trained / "2" / "draws" / name)
    assert bool(drawn) == name.startswith(("grpo", "rloo", "ppo"))


@pytest.mark.parametrize("kind", PHASES)
def test_trainings_by_tokens_and_on_rollouts_too(kind, half_solved, requests, tmp_path):
    """Each process takes a share of the passes of a step."""
    rows = requests(tmp_path)["sft"].rows
    for world in (1, 2):
        run_ranks(world, train_phase, kind, half_solved["base"], rows, tmp_path / f"{world}")
    one, two = (tmp_path / f"{world}" for world in (1, 2))
    for mine, other in zip(log_of(one), log_of(two), strict=True):
        assert mine == pytest.approx(other, abs=PHASES[kind])
    assert difference(one, two) < PHASES[kind]


def test_shards_of_weights_train_as_one_process_does(trained, requests, tmp_path):
    """FSDP2 over two processes, adapters and all weights: what is published is whole."""
    sharded = requests(tmp_path, processes=2, sharding="full")
    assert run_ranks(2, train_sharded, sharded) == [dict.fromkeys(sharded)] * 2
    for name in SHARDED:
        assert difference(tmp_path / name, trained / "1" / name) < 1e-5


def test_weights_that_are_not_sharded_as_set_are_refused(requests, tmp_path):
    """Accelerate takes DDP on a CPU, without a word."""
    one = {"sft": requests(tmp_path, processes=2, sharding="full")["sft"]}
    line = "train.sharding=full: accelerate shards no weights on cpu; set train.sharding=none"
    assert run_ranks(2, train_each, one) == [{"sft": line}] * 2


@pytest.mark.parametrize("name", ["sft", "grpo"])
def test_a_training_resumes_with_another_number_of_processes(name, trained, requests, tmp_path):
    """Broken at step 3 by one process and at step 5 by two; the end of it by one again."""
    for world, step in ((1, 3), (2, 5), (1, None)):
        request = requests(tmp_path, processes=world)[name]
        progress = step and ExitAt(step=step)
        one = {name: replace(request, progress=progress)}
        run_ranks(world, train_each, one, is_lost=step is not None)
    assert difference(tmp_path / name, trained / "1" / name) < 1e-5
