"""The model card: metadata that hubs read, and no claim that the statistics do not bear."""

import pytest
from huggingface_hub import ModelCard

from pipeline_lib.errors import BadInputError, CorruptArtifactError
from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.store import manifests
from pipeline_lib.systems.loop.exports.model_card import export_policy, model_card
from tests.unit.systems.loop.exports.finished_policies import finished

LUCKY = (["cc"] * 7 + ["ww"] * 13, ["cc"] * 11 + ["ww"] * 9)


def card_of(base, trained, **changes):
    return model_card(finished(base, trained, ks=(1,), **changes))


def test_the_metadata_is_read_by_the_hubs_own_reader():
    """model-index holds pass@1 by both scores with its interval: 11 of 20 is 0.55."""
    data = ModelCard(card_of(*LUCKY)).data
    strict, lenient = data.eval_results
    assert (strict.metric_value, lenient.metric_value) == (0.55, 0.55)
    assert strict.metric_args["low"] < 0.55 < strict.metric_args["high"]
    assert (strict.metric_args["problems"], strict.metric_args["level"]) == (20, 0.95)
    assert (data.pipeline_tag, data.library_name) == ("text-generation", "transformers")
    assert data.model_name == "countdown-sft-seed-7"


def test_a_lucky_claim_is_not_made():
    """7 of 20 to 11 of 20: the card's title and text say that there is no significant gain."""
    card = card_of(*LUCKY)
    assert "No significant gain of policy over base in pass@1" in card
    assert "gains" not in card
    assert "| policy | base | pass@1 | +20.0" in card
    assert "no significant gain |" in card


def test_base_model_is_named_only_if_a_hub_knows_it():
    """The metadata name a hub id, but neither a local folder nor a model trained from scratch."""
    hub = card_of(*LUCKY, bootstrap=BootstrapParams(model="Qwen/Qwen2.5-1.5B"))
    assert ModelCard(hub).data.base_model == "Qwen/Qwen2.5-1.5B"
    folder = card_of(*LUCKY, bootstrap=BootstrapParams(model="/srv/secret/my-model"))
    assert ModelCard(folder).data.base_model is None
    assert "`my-model`" in folder
    assert "/srv/secret" not in folder
    made = (
        "trained from scratch by 500 supervised steps on worked solutions at a learning rate of at"
    )
    assert f"{made} most 0.002" in card_of(*LUCKY)


def test_steps_are_those_that_were_logged():
    """The log holds one step of each phase, whatever the params ask for, each with its own rate."""
    phases = (
        "1 steps of warm-start at a learning rate of at most 0.002, "
        "1 steps of grpo at a learning rate of at most 5e-05"
    )
    assert phases in card_of(*LUCKY)


def test_limits_and_digests_are_told():
    """One seed, one data set, and what the run was made of."""
    card = card_of(*LUCKY)
    assert "One training with one seed" in card
    assert "57afcd447c0ecacc" in card


@pytest.fixture
def policy(tmp_path):
    folder = tmp_path / "policy"
    (folder / "more").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "more" / "config.json").write_text("{}", encoding="utf-8")
    manifests.seal(folder, kind="model", key="k")
    return folder


def test_the_exported_folder_has_the_model_and_its_card(policy, tmp_path):
    """Every sealed file and README.md; the policy's own folder keeps its digest."""
    before = manifests.read_manifest(policy).digest
    export_policy(policy, "# card", tmp_path / "out")
    files = {p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.*")}
    assert files == {"model.safetensors", "more/config.json", "README.md"}
    manifests.check(policy, manifests.read_manifest(policy))
    assert manifests.read_manifest(policy).digest == before
    assert not (policy / "README.md").exists()


def test_an_existing_folder_is_not_written_into(policy, tmp_path):
    """It may be anything; the message says what to do."""
    (tmp_path / "out").mkdir()
    with pytest.raises(BadInputError, match="exists; remove it or choose another --output"):
        export_policy(policy, "# card", tmp_path / "out")


def test_a_damaged_policy_is_not_published(policy, tmp_path):
    """One byte more in the weights: nothing is written."""
    (policy / "model.safetensors").write_bytes(b"weights!")
    with pytest.raises(CorruptArtifactError, match="sha256 differs"):
        export_policy(policy, "# card", tmp_path / "out")
    assert not (tmp_path / "out").exists()
