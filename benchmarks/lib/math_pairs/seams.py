r"""Generated pairs for the math verifier: whole completions with tags, tokens and corrections."""

from collections.abc import Iterator

from benchmarks.lib.math_pairs.pair import Pair

_TAGS = (
    ("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"), ("<reasoning>", "</reasoning>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"), ("◁think▷", "◁/think▷"), ("<seed:think>", "</seed:think>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
)  # fmt: skip
_ENDS = (
    "</s>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<|im_end|>\n<|im_start|>user\nAnd 7?",
)


def reasoning() -> Iterator[Pair]:
    """Drafts inside reasoning do not count beside an answer."""
    for start, end in _TAGS:
        yield "460", f"{start}first \\boxed{{12}}{end}So \\boxed{{460}}.", True
        yield "460", f"{start}first \\boxed{{460}}{end}So \\boxed{{12}}.", False
        yield "460", f"{start}it is 12{end}460", True
        yield "460", f"So \\boxed{{460}}. {start}or is it \\boxed{{12}}", True
        yield "460", f"So \\boxed{{12}}. {start}or is it \\boxed{{460}}", False


def tokens() -> Iterator[Pair]:
    """Tokens of a chat, tool calls, tags and containers around an answer."""
    for end in _ENDS:
        for text in ("460", "\\boxed{460}", "The answer is 460.", "#### 460"):
            yield "460", text + end, True
            yield "46", text + end, False
    for text in (
        "<answer>{}</answer>", "<answer>\n{}\n</answer>", "so <answer>12</answer>, no: <answer>{}</answer>", '{{"answer": {}}}',
        '```json\n{{"steps": 3, "answer": "{}"}}\n```', "\\fbox{{{}}}", "\\boxed{{{}}} \\boxed{{}}", "The answer is {}. \\boxed{{}}",
        "$400 + $60 = ${}.", "```python\n#### 3\n```\nThe answer is {}.", "**Answer: {}**", "\\boxed{{{}}}<tool_call>\\boxed{{12}}</tool_call>",
        "<tool_call>\\boxed{{12}}</tool_call> The answer is {}.", "\\boxed{{12}}. Wait, I made a mistake. The answer is {}.",
    ):  # fmt: skip
        yield "460", text.format("460"), True
        yield "460", text.format("461"), False
    for text in (
        "\\boxed{{{}}}. Wait, that was wrong. The answer is 12.",
        "<tool_call>\\boxed{{{}}}</tool_call>",
    ):
        yield "460", text.format("460"), False


CLASSES = (reasoning, tokens)
