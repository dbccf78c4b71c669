"""Weights that are trained are float32 until they are drawn from or exported, whatever the source is stored in."""

import pathlib
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine, hold_on_cpu
from pipeline_lib.engines.model_config import RECORD, recorded_dtype
from pipeline_lib.params.train import Method
from pipeline_lib.store.files import read_json
from pipeline_lib.train.methods import schedule_stored_rows, train_policy
from pipeline_lib.train.offline import sft
from pipeline_lib.train.online.live_rollouts import rounded_weights
from pipeline_lib.train.phases import Phase, TrainContext, run_phase
from pipeline_lib.train.weights.export import export_model, write_compact_chat
from pipeline_lib.train.weights.models import training_dtype
from pipeline_lib.train.weights.policies import load_policy
from tests.unit.train.weights.half_models import held_out_loss, stored_in

SMALL_STEPS = {"steps": 20, "lr": 1e-5, "checkpoint_every": 20}
LORA = {"lora": {"enabled": True, "rank": 4}, "lr": 1e-2}


@pytest.fixture(scope="module")
def half(base, tmp_path_factory) -> pathlib.Path:
    """The tiny base, stored in bfloat16."""
    return stored_in(torch.bfloat16, base, tmp_path_factory.mktemp("half") / "base")


@pytest.fixture(scope="module")
def full(base, tmp_path_factory) -> pathlib.Path:
    """The same values, stored in float32."""
    return stored_in(torch.float32, base, tmp_path_factory.mktemp("full") / "base")


@pytest.fixture
def taught(request_for, half, tmp_path) -> pathlib.Path:
    """A policy after a training of the half-precision base."""
    train_policy(request_for(Method.SFT, tmp_path / "taught", base=str(half)))
    return tmp_path / "taught"


def weights_of(folder: pathlib.Path) -> dict[str, torch.Tensor]:
    return AutoModelForCausalLM.from_pretrained(folder, dtype="auto").state_dict()


@pytest.mark.parametrize(
    ("trains_weights", "on_gpu", "dtype"),
    [
        (True, True, torch.float32),
        (True, False, torch.float32),
        (False, True, torch.bfloat16),
        (False, False, torch.float32),
    ],
)
def test_trained_weights_are_float32_on_every_device(trains_weights, on_gpu, dtype):
    """Only a frozen base is bfloat16, and only on a GPU."""
    assert training_dtype(trains_weights=trains_weights, on_gpu=on_gpu) is dtype


def test_small_steps_add_up_over_two_rounds_from_a_half_precision_base(
    half, full, request_for, rows, tmp_path
):
    """20 steps at 1e-5, published, and 20 from there: the loss falls as from float32, within 5 %.

    Rounded after each round, as before, it falls by another amount: most moves are below half a step.
    """
    train, held_out = rows[:16], rows[16:]
    losses = {half: [held_out_loss(half, held_out)], full: [held_out_loss(full, held_out)]}
    assert losses[half] == losses[full]
    for source, series in losses.items():
        start = source
        for number in (1, 2):
            output = tmp_path / f"{source.parent.name}-{number}"
            request = request_for(
                Method.SFT, output, base=str(start), rows=train, train=SMALL_STEPS
            )
            train_policy(request)
            series.append(held_out_loss(output, held_out))
            start = output
    for number in (1, 2):
        fall, wanted = (losses[each][0] - losses[each][number] for each in (half, full))
        assert wanted > 1e-3 * number
        assert fall == pytest.approx(wanted, rel=0.05)


def test_a_policy_is_drawn_as_its_base_is(half, taught):
    """Published in float32, drawn in the base's arithmetic, from weights rounded as the base's are."""
    assert {one.dtype for one in weights_of(taught).values()} == {torch.float32}
    assert recorded_dtype(str(taught)) == "bfloat16"
    base, policy = (EmbeddedEngine.load(str(one), batch_size=1) for one in (half, taught))
    assert policy.arithmetic == base.arithmetic
    drawn = policy.model.state_dict()
    for name, weight in weights_of(taught).items():
        assert torch.equal(drawn[name], weight.bfloat16().to(drawn[name].dtype))


def test_a_model_that_becomes_a_chat_model_is_drawn_as_before(half, tmp_path):
    """The precision of the base of PaCoRe is that of its source."""
    write_compact_chat(str(half), tmp_path / "chat")
    engines = [EmbeddedEngine.load(str(one), batch_size=1) for one in (half, tmp_path / "chat")]
    assert engines[0].arithmetic == engines[1].arithmetic
    assert recorded_dtype(str(tmp_path / "chat")) == "bfloat16"


def test_a_float32_model_records_nothing(base, request_for, tmp_path):
    """Its policies are drawn as they are stored, and their configs are as before."""
    train_policy(request_for(Method.SFT, tmp_path / "out"))
    assert RECORD not in read_json(tmp_path / "out" / "config.json")
    assert recorded_dtype("owner/of-a-hub") is None


@pytest.mark.parametrize("multiplies", [True, False])
def test_the_rotary_frequencies_are_not_rounded(half, multiplies):
    """They are float32 in a model of bfloat16, as `from_pretrained` makes them, on every CPU."""
    loaded = AutoModelForCausalLM.from_pretrained(half, dtype="auto")
    wanted = loaded.model.rotary_emb.inv_freq.clone()
    held = hold_on_cpu(loaded, multiplies_bfloat16=multiplies)
    assert held.dtype is (torch.bfloat16 if multiplies else torch.float32)
    assert torch.equal(held.model.rotary_emb.inv_freq, wanted)


def test_an_export_takes_the_precision_in_which_a_policy_is_drawn(half, taught, tmp_path):
    """bfloat16 unless another one is named; the exported folder is drawn as it is stored."""
    for name, dtype in (("half", None), ("full", "float32")):
        done = export_model(str(taught), tmp_path / name, dtype=dtype)
        stored = AutoConfig.from_pretrained(tmp_path / name)
        assert str(stored.dtype) == f"torch.{done.dtype}"
        assert recorded_dtype(str(tmp_path / name)) is None
    exported, whole = weights_of(tmp_path / "half"), weights_of(tmp_path / "full")
    for name, weight in weights_of(taught).items():
        assert torch.equal(exported[name], weight.bfloat16())
        assert torch.equal(whole[name], weight)


def test_adapters_are_merged_in_float32(half, request_for, tmp_path):
    """The policy of a half-precision base is the base plus the adapter's product, in float32."""
    train_policy(request_for(Method.SFT, tmp_path / "out", base=str(half), train=LORA))
    base, policy = weights_of(half), weights_of(tmp_path / "out")
    export_model(
        str(half), tmp_path / "export", on_top=[tmp_path / "out/adapters/1-sft"], dtype="float32"
    )
    exported = weights_of(tmp_path / "export")
    assert exported.keys() == policy.keys()
    assert all(torch.equal(exported[name], weight) for name, weight in policy.items())
    moved = {name for name, weight in policy.items() if not torch.equal(weight, base[name].float())}
    assert any("q_proj" in name for name in moved)
    rounded = [name for name in moved if torch.equal(policy[name], policy[name].bfloat16().float())]
    assert rounded == []


def test_adapters_that_a_trainer_has_rounded_are_trained_in_float32(half, request_for, tmp_path):
    """TRL makes adapters on a base in 4 bits bfloat16; a published adapter has values between its steps."""
    request = request_for(Method.SFT, tmp_path / "out", base=str(half), train=LORA)
    make = sft.trainer_factory(request.rows, lora=request.params.lora)

    def rounding(policy, settings):
        trainer = make(policy, settings)
        for weight in trainer.model.parameters():
            if weight.requires_grad:
                weight.data = weight.data.bfloat16()
        return trainer

    phase = Phase(
        name="sft",
        schedule=replace(schedule_stored_rows(request.params), micro_batch_size=4),
        make_trainer=rounding,
        lora=request.params.lora,
    )
    context = TrainContext(work=tmp_path, key="k", seed=1, threads=1)
    folder = run_phase(phase, str(half), context)
    policy, base = weights_of(folder), weights_of(half)
    assert any(not torch.equal(policy[name], base[name].float()) for name in base)
    stored = load_file(folder / "adapter" / "adapter_model.safetensors")
    saved = torch.cat([one.flatten() for one in stored.values()])
    assert saved.dtype is torch.float32
    assert not torch.equal(saved, saved.bfloat16().float())


def test_draws_of_a_training_round_and_restore_the_weights(half):
    """Inside bfloat16, tied weights tied; afterwards the very weights of the optimizer."""
    model = load_policy(str(half)).model
    for weight in model.parameters():
        weight.data = weight.data + 1e-5
    before = {name: (one, one.data) for name, one in model.named_parameters()}
    with rounded_weights(model, enabled=True):
        assert model.dtype is torch.bfloat16
        assert model.lm_head.weight is model.model.embed_tokens.weight
    after = dict(model.named_parameters())
    assert all(
        after[name] is one and one.data_ptr() == data.data_ptr()
        for name, (one, data) in before.items()
    )
    with rounded_weights(model, enabled=False):
        assert model.dtype is torch.float32
