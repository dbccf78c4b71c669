"""A tokenizer without the characters of the problems is refused, not scored as wrong."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.body import check_readable

PROBLEM = Problem(
    id="p", question="?", gold=CountdownGold(numbers=(2, 3, 4), target=24), source="t"
)


def save_tokenizer(folder, signs):
    """One token a character; others are unknown."""
    vocabulary = {sign: number for number, sign in enumerate(["<unk>", *signs])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>").save_pretrained(folder)


def test_characters_that_a_tokenizer_lacks_are_named(tmp_path):
    """The prompt is 2,3,4=24 and a line break."""
    save_tokenizer(tmp_path / "full", "0123456789=,\n")
    save_tokenizer(tmp_path / "lacking", "0123456789=\n")
    check_readable([PeerParams(name="full", model=str(tmp_path / "full"))], [PROBLEM])
    with pytest.raises(BadInputError, match="classmate s: its tokenizer lacks ',' of the"):
        check_readable([PeerParams(name="s", model=str(tmp_path / "lacking"))], [PROBLEM])


def test_a_tokenizer_of_bytes_reads_everything(compact_peer):
    """It has no unknown token."""
    check_readable([PeerParams(name="bytes", model=str(compact_peer))], [PROBLEM])
