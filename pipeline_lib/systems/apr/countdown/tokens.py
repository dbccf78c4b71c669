"""The tokenizer of Countdown threads: phrases of the grammar and numbers, then digits and bytes.

It is made from its vocabulary alone, without training and without a deep-learning stack. Any text is
restored: ``decode(encode(text)) == text``.
"""

import functools
import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

PAD = "<pad>"
EOS = "<eos>"
# A phrase begins with its line feed: texts are cut before one, so the tokens of a prompt and of what
# follows it are the tokens of the whole text.
_PHRASES = (
    "Sub Call Budget: ",
    "Token Budget: ",
    "Moving to Node #0",
    "\nMoving to Node #0",
    "Current State: ",
    "\nCurrent State: ",
    ":[",
    ", ",
    "], Operations: [",
    "', '",
    "']",
    "['",
    "\nExploring Operation: ",
    ", Resulting Numbers: [",
    "\nGenerated Node #0,",
    ": ",
    "] Operation: ",
    " equal: Goal Reached",
    " unequal: No Solution",
    "\nNo solution found.",
    "\nNo solution found in sub search",
    "\nStart Sub Search at level ",
    ": Moving to Node #0,",
    "\nExit Sub Search at level ",
    "\n<Calling Sub Searches>",
    "\n<Start Sub Search ",
    " at level 1> Moving to Node #0,",
    "\n<End Calling Sub Searches>",
    "\n<Sub Searches>",
    "\n<No Solution in Sub Search ",
    "\n<Goal Reached in Sub Search ",
    " at level 1 at Node #0,",
    "\n<End Sub Searches>",
)
_DIGITS = "[0-9]+"


@functools.cache
def make_tokenizer(num_numbers: int) -> Tokenizer:
    """The tokenizer for problems of ``num_numbers`` numbers; it adds no special tokens."""
    # Numbers up to 300 or 999 have a token of their own.
    numbers = [str(number) for number in range(301 if num_numbers <= 3 else 1000)]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    spelled = [byte_level.pre_tokenize_str(text)[0][0] for text in (*_PHRASES, *numbers)]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = [PAD, EOS, *alphabet, *(text for text in spelled if len(text) > 1)]
    # Without merges a piece is one token if it is in the vocabulary, and bytes if it is not.
    tokenizer = Tokenizer(
        models.BPE(
            vocab={text: index for index, text in enumerate(vocabulary)},
            merges=[],
            ignore_merges=True,
        )
    )
    phrases = sorted(_PHRASES, key=len, reverse=True)
    pieces = "|".join([*map(re.escape, phrases), _DIGITS])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), "isolated"),
            byte_level,
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(PAD, normalized=False), AddedToken(EOS, normalized=False)]
    )
    return tokenizer


def count_tokens(text: str, *, num_numbers: int) -> int:
    """Tokens of a text, without an end token."""
    return len(make_tokenizer(num_numbers).encode(text).ids)
