"""An adapter on one of two tied weights, as of lm_head, is merged into the model that it makes."""

import pathlib

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

from pipeline_lib.store.files import read_json
from pipeline_lib.train.token_budget import Tokens
from pipeline_lib.train.weights.export import export_model
from pipeline_lib.train.weights.policies import save_policy

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:peft")
TOKENS = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12]])
BODY = {"target_modules": ["q_proj"]}


def logits(model) -> torch.Tensor:
    with torch.inference_mode():
        return model.eval()(input_ids=TOKENS).logits


def adapted(base: pathlib.Path, changes: dict[str, object]) -> PeftModel:
    """The base with a random adapter far from zero."""
    model = AutoModelForCausalLM.from_pretrained(base)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = LoraConfig(r=2, task_type="CAUSAL_LM", init_lora_weights=False, **changes)
        wrapped = get_peft_model(model, config)
        for weight in wrapped.parameters():
            if weight.requires_grad:
                weight.data += 0.3 * torch.randn_like(weight)
    return wrapped


@pytest.mark.parametrize(
    ("changes", "tied"),
    [
        ({"target_modules": ["lm_head"]}, False),
        ({"target_modules": ["embed_tokens"]}, False),
        ({"target_modules": ["lm_head", "embed_tokens"]}, False),
        ({"target_modules": ["lm_head"], "ensure_weight_tying": True}, False),
        (BODY | {"modules_to_save": ["lm_head"]}, False),
        (BODY | {"modules_to_save": ["embed_tokens"]}, False),
        (BODY | {"modules_to_save": ["embed_tokens", "lm_head"]}, False),
        (BODY | {"trainable_token_indices": [5, 6]}, False),
        (BODY, True),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else None,
)
def test_the_merged_folder_has_the_logits_of_base_and_adapter(base, changes, tied, tmp_path):
    """Exported, and saved as a policy, then loaded again; weights stay tied where none of them is adapted.

    Before, the logits of the first two differed by 1 and more, and nothing was said.
    """
    model = adapted(base, changes)
    wanted = logits(model)
    assert (wanted - logits(AutoModelForCausalLM.from_pretrained(base))).abs().max() > 1e-2
    model.save_pretrained(tmp_path / "adapter")
    export_model(str(base), tmp_path / "export", on_top=[tmp_path / "adapter"])
    save_policy(model, tmp_path / "policy", source=str(base), log=[], key="k", tokens=Tokens())
    for folder in (tmp_path / "export", tmp_path / "policy"):
        merged = AutoModelForCausalLM.from_pretrained(folder)
        torch.testing.assert_close(logits(merged), wanted, rtol=1e-4, atol=1e-4)
        assert AutoConfig.from_pretrained(folder).tie_word_embeddings is tied
        assert read_json(folder / "config.json")["tie_word_embeddings"] is tied


def test_adapters_in_order_on_a_model_that_the_first_has_untied(base, tmp_path):
    """The second is on the body alone: the head keeps its own values."""
    first = adapted(base, {"target_modules": ["lm_head"]})
    first.save_pretrained(tmp_path / "1")
    export_model(str(base), tmp_path / "once", on_top=[tmp_path / "1"])
    second = adapted(tmp_path / "once", BODY)
    second.save_pretrained(tmp_path / "2")
    export_model(str(base), tmp_path / "both", on_top=[tmp_path / "1", tmp_path / "2"])
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "both")
    torch.testing.assert_close(logits(merged), logits(second), rtol=1e-4, atol=1e-4)
