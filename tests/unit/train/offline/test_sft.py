"""Labels of SFT rows."""

from pipeline_lib.train.bootstrap import make_tokenizer
from pipeline_lib.train.offline.sft import tokenize

TOKENIZER = make_tokenizer(["2,3=5\n", "3+2=5"])


def test_only_completion_and_end_token_are_labelled():
    """2,3=5 and newline are six unlabelled tokens; 3+2=5 and the end token are six labels."""
    row = tokenize({"prompt": "2,3=5\n", "completion": "3+2=5"}, TOKENIZER)
    completion = [*TOKENIZER.encode("3+2=5"), TOKENIZER.eos_token_id]
    assert row["input_ids"] == [*TOKENIZER.encode("2,3=5\n"), *completion]
    assert row["labels"] == [-100] * 6 + completion
    assert len(completion) == 6
