"""Supervised training of models of threads: resume, limits, the saved folder, its record."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import torch
from pydantic import ValidationError
from transformers import AutoTokenizer

from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.errors import BadInputError, BudgetReachedError, DivergedError
from pipeline_lib.params.apr import AprModelParams, AprParams, AprSftParams
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.systems.apr.data_folder import traces_folder
from pipeline_lib.systems.apr.model_record import choose_condition, read_record
from pipeline_lib.systems.apr.sft import train_on_traces
from pipeline_lib.train.weights.policies import load_policy
from tests.unit.systems.apr.learned_model import record

PARAMS = AprParams(
    model=AprModelParams(
        window=192, hidden_size=16, feed_forward_size=32, num_layers=2, num_heads=2
    ),
    sft=AprSftParams(tokens=12_000, step_tokens=1024, pass_tokens=512, checkpoint_every=3),
)


def train(data, output, *, params=PARAMS, kind="parallel", **options):
    return train_on_traces(data, kind, output, params, seed=5, **options)


@pytest.fixture(scope="module")
def model(small_data, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("models") / "parallel"
    train(small_data, folder)
    return folder


def test_the_length_is_given_in_tokens(model):
    """12,000 tokens in steps of at most 1,024: the last step ends above. The loss begins at ln 582 = 6.37."""
    counts = manifests.read_manifest(model).counts
    assert 12_000 <= counts["trained_tokens"] < 12_000 + 1024
    losses = [row["loss"] for row in read_json_lines(model / "training_log.jsonl")]
    assert len(losses) >= 12
    assert losses[0] == pytest.approx(6.37, abs=0.1)
    assert losses[-1] < losses[0] - 0.3


@pytest.mark.slow
def test_a_killed_training_ends_with_the_weights_of_an_unbroken_one(small_data, model, tmp_path):
    """SIGKILL behind the first checkpoint; the manifests, log included, are equal."""
    output = tmp_path / "killed"
    script = (
        "import pathlib, sys\n"
        "from pipeline_lib.systems.apr.sft import train_on_traces\n"
        "from pipeline_lib.params.apr import AprParams\n"
        "params = AprParams.model_validate_json(sys.argv[1])\n"
        "data, output = map(pathlib.Path, sys.argv[2:])\n"
        "train_on_traces(data, 'parallel', output, params, seed=5)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, PARAMS.model_dump_json(), str(small_data), str(output)]
    )
    while process.poll() is None and not list(tmp_path.rglob("checkpoint-3/DONE")):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not output.exists()
    train(small_data, output)
    assert manifests.read_manifest(output) == manifests.read_manifest(model)


def test_a_time_limit_ends_behind_a_checkpoint(small_data, model, tmp_path):
    """A limit that is over at once: one step, exit code 3, and the next call goes on from it."""
    steps: list[int] = []
    with pytest.raises(BudgetReachedError, match="step 1 of"):
        train(small_data, tmp_path / "model", max_seconds=1e-6)
    assert list(tmp_path.rglob("checkpoint-1/DONE"))
    train(
        small_data, tmp_path / "model", progress=lambda step, _total, _metrics: steps.append(step)
    )
    assert steps[0] == 2
    assert manifests.read_manifest(tmp_path / "model") == manifests.read_manifest(model)
    assert BudgetReachedError.exit_code == 3


def test_the_record_tells_what_the_model_knows(small_data, model):
    """Style, window, numbers, conditions and what was left out."""
    record = read_record(model)
    rows = shards.read_table(traces_folder(small_data, "parallel"))
    assert (record.kind, record.style, record.window, record.num_numbers) == (
        "parallel",
        "compact",
        192,
        3,
    )
    trained = {row["condition"] for row in rows if row["role"] == "parent"}
    assert {""} < set(record.conditions) <= {"", *trained}
    assert record.data == manifests.read_manifest(small_data).digest
    with pytest.raises(BadInputError, match="no model of threads"):
        read_record(small_data)


def test_the_tokenizer_is_a_plain_folder(model, small_data):
    """`AutoTokenizer` restores all texts, without special tokens of its own; the engine decodes so."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    for row in shards.read_table(traces_folder(small_data, "parallel"))[:20]:
        text = row["condition"] + row["prefix"] + row["output"]
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
        assert tokenizer.eos_token_id not in ids


def test_the_embedded_engine_draws_from_the_folder(model):
    """Its greedy text is that of the saved model's own argmax, token by token."""
    policy = load_policy(str(model))
    prompt = "Sub Call Budget: 3 Moving to Node #0\nCurrent State: 12:[2, 5, 8], Operations: []"
    ids = policy.tokenizer(prompt)["input_ids"]
    for _ in range(6):
        logits_BLV = policy.model(input_ids=torch.tensor([ids])).logits
        ids.append(int(logits_BLV[0, -1].argmax()))
    request = Request(prompt=prompt, seeds=(1,))
    decoding = Decoding(temperature=0, max_new_tokens=6)
    [[drawn]] = EmbeddedEngine.load(str(model), batch_size=1).complete([request], decoding)
    assert drawn.prompt_tokens == len(ids) - 6
    assert drawn.text == policy.tokenizer.decode(ids[-6:], skip_special_tokens=True)


def test_a_finished_training_is_reused(small_data, model):
    """The same call writes nothing."""
    before = {path: path.stat().st_mtime_ns for path in model.rglob("*")}
    train(small_data, model)
    assert {path: path.stat().st_mtime_ns for path in model.rglob("*")} == before


@pytest.mark.parametrize("change", [{"kind": "serial"}, {"seed": 6}, {"lr": 1e-3}])
def test_the_model_of_another_training_is_kept(small_data, model, change):
    """Kind, seed or rate differ: an error in one line, and the model stays."""
    params, kind, seed = PARAMS, change.get("kind", "parallel"), change.get("seed", 5)
    if "lr" in change:
        params = PARAMS.model_copy(
            update={"sft": PARAMS.sft.model_copy(update={"lr": change["lr"]})}
        )
    digest = manifests.read_manifest(model).digest
    with pytest.raises(BadInputError, match="model of another training"):
        train_on_traces(small_data, kind, model, params, seed=seed)
    assert manifests.read_manifest(model).digest == digest


def test_unusable_data_is_refused(tmp_path):
    """A folder without data, before anything is written."""
    with pytest.raises(BadInputError, match="no finished data"):
        train(tmp_path, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_each_setting_changes_the_weights(small_data, tmp_path):
    """Two steps with AdamW, in float32, or with a loss on prefixes differ from the default's."""
    short = PARAMS.sft.model_copy(update={"tokens": 1500})
    digests = []
    for name, value in (
        ("tokens", 1500),
        ("optimizer", "adamw"),
        ("precision", "float32"),
        ("loss_on", "all"),
    ):
        params = PARAMS.model_copy(update={"sft": short.model_copy(update={name: value})})
        digests.append(train(small_data, tmp_path / name, params=params).files["model.safetensors"])
    assert digests[0] not in digests[1:]


def test_a_step_that_holds_no_sequence_is_refused(small_data, tmp_path):
    """The longest sequence has more than 64 tokens; no model and no checkpoint is left."""
    narrow = PARAMS.model_copy(
        update={"sft": PARAMS.sft.model_copy(update={"step_tokens": 64, "pass_tokens": 64})}
    )
    with pytest.raises(BadInputError, match=r"apr\.sft\.step_tokens=64: the longest"):
        train(small_data, tmp_path / "model", params=narrow)
    assert not (tmp_path / "model").exists()


def test_a_training_that_diverges_publishes_nothing(small_data, tmp_path):
    """At a rate of 1e30 the weights overflow: one line with step and rate, and no model."""
    rates = {"optimizer": "adamw", "lr": 1e30, "precision": "float32"}
    params = PARAMS.model_copy(update={"sft": PARAMS.sft.model_copy(update=rates)})
    with pytest.raises(DivergedError, match=r"sft, step \d+: diverged, .* lower the learning rate"):
        train(small_data, tmp_path / "model", params=params)
    assert not (tmp_path / "model").exists()


def test_weights_that_are_not_finite_are_not_published(small_data, tmp_path, monkeypatch):
    """The last update of a training, whose loss was finite."""
    sft = PARAMS.sft.model_copy(update={"tokens": 500})
    step = torch.optim.AdamW.step

    def overflow(self, closure=None):
        step(self, closure)
        self.param_groups[0]["params"][0].data.fill_(float("inf"))

    monkeypatch.setattr(torch.optim.AdamW, "step", overflow)
    with pytest.raises(DivergedError, match="weights no longer finite"):
        train(small_data, tmp_path / "model", params=PARAMS.model_copy(update={"sft": sft}))


FOLDER = pathlib.Path("m")
TEN, NINE = "Sub Call Budget: 10 ", "Sub Call Budget: 9 "
LONG, SHORT = "Token Budget: 96 ", "Token Budget: 64 "


def known(*conditions, kind="parallel"):
    return record(conditions=conditions, kind=kind)


@pytest.mark.parametrize(
    ("conditions", "kind", "words"),
    [
        ((), "parallel", "at least 1 item"),
        (("Sub Call Budget: 10",), "parallel", "last space"),
        (("", "Sub Call Budget: ten "), "parallel", "last space"),
        (("Token Budget: 96 ",), "parallel", "Sub Call Budget: N "),
        (("Sub Call Budget: 3 ",), "serial", "Token Budget: N "),
    ],
)
def test_a_record_has_conditions_that_the_grammar_reads(conditions, kind, words):
    """Another text before a prompt would leave the root unread, and every child unknown."""
    with pytest.raises(ValidationError, match=words):
        known(*conditions, kind=kind)


@pytest.mark.parametrize(
    ("model", "amount", "expected"),
    [
        (known(NINE, TEN), 9, NINE),
        (known(NINE, TEN), None, TEN),
        (known(SHORT, LONG, kind="serial"), 64, SHORT),
        (known("", SHORT, LONG, kind="serial"), 96, LONG),
        (known("", SHORT, LONG, kind="serial"), 0, ""),
        (known("", SHORT, LONG, kind="serial"), None, ""),
        (known(""), None, ""),
    ],
)
def test_the_condition_is_one_of_the_training(model, amount, expected):
    """Without an amount none if the model was trained so, else the largest: 10 and not 9."""
    assert choose_condition(FOLDER, model, amount) == expected


@pytest.mark.parametrize(
    ("model", "amount", "message"),
    [
        (
            known(TEN, NINE),
            3,
            "on 'Sub Call Budget: 3', but on 'Sub Call Budget: 9', 'Sub Call Budget: 10';",
        ),
        (known(TEN, NINE), 0, "on no condition, but on 'Sub Call Budget: 9'"),
        (known(""), 3, "but on no condition;"),
    ],
)
def test_a_condition_that_was_never_trained_is_refused(model, amount, message):
    """The message lists what was, by size."""
    with pytest.raises(BadInputError, match=message):
        choose_condition(FOLDER, model, amount)


def test_the_amounts_of_a_training_are_in_order():
    """By size, with 0 for none."""
    assert known(TEN, "", NINE).trained_amounts == [0, 9, 10]
