"""One example per kind of answer: a problem's gold with texts that are right and wrong."""

from dataclasses import dataclass

from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.hops import HopsGold
from pipeline_lib.kinds.kind import Gold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.kinds.own import own_gold
from pipeline_lib.kinds.program import ProgramGold
from pipeline_lib.kinds.task_sets import GymGold, TaskGold


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Texts are in the requested format."""

    gold: Gold
    line: dict[str, object]
    """The gold's fields in a line of a JSONL file."""
    shown: str
    right: str
    wrong: str
    no_answer: str


EXAMPLES = {
    "math": Example(
        gold=MathGold(answer="1/2"),
        line={"gold": "1/2"},
        shown="1/2",
        right="Half of it: \\boxed{0.5}",
        wrong="\\boxed{2}",
        no_answer="I do not know.",
    ),
    "countdown": Example(
        gold=CountdownGold(numbers=(3, 5, 3), target=24),
        line={"numbers": [3, 5, 3], "target": 24},
        shown="24 from 3, 5, 3",
        right="3+5=8\n8*3=24",
        wrong="3*5=15\n15+9=24",
        no_answer="hello",
    ),
    "code": Example(
        gold=CodeGold(entry_point="add", tests="assert add(1, 2) == 3\nassert add(2, 2) == 4"),
        line={"entry_point": "add", "tests": "assert add(1, 2) == 3\nassert add(2, 2) == 4"},
        shown="assert add(1, 2) == 3\nassert add(2, 2) == 4",
        right="```python\ndef add(a, b):\n    return a + b\n```",
        wrong="```python\ndef add(a, b):\n    return a - b\n```",
        no_answer="  ",
    ),
    "arc": Example(
        gold=ArcGold(output=((1, 2), (3, 4))),
        line={"gold": [[1, 2], [3, 4]]},
        shown="1 2\n3 4",
        right="```\n1 2\n3 4\n```",
        wrong="```\n1 2\n3 5\n```",
        no_answer="no grid",
    ),
    "program": Example(
        gold=ProgramGold(tests=(("1 2\n", "3\n"), ("2 2\n", "4\n")), tolerance=1e-6),
        line={
            "tests": [{"input": "1 2\n", "output": "3\n"}, {"input": "2 2\n", "output": "4\n"}],
            "checker": {"tolerance": 1e-6},
        },
        shown="1 2\n-> 3\n\n2 2\n-> 4\n",
        right="```python\na, b = map(int, input().split())\nprint(a + b)\n```",
        wrong="```python\na, b = map(int, input().split())\nprint(a - b)\n```",
        no_answer="  ",
    ),
    "own": Example(
        gold=own_gold("four"),
        line={"gold": "four"},
        shown="four",
        right="four",
        wrong="five",
        no_answer="",
    ),
    "gym": Example(
        gold=GymGold(of="gym:gcd", entry=repr({"answer": "4", "metadata": {"numbers": [8, 12]}})),
        line={
            "gold": {"of": "gym:gcd", "entry": "{'answer': '4', 'metadata': {'numbers': [8, 12]}}"}
        },
        shown="4",
        right="8 is 2 * 4. <answer>4</answer>",
        wrong="<answer>5</answer>",
        no_answer="<answer></answer>",
    ),
    "verifiers": Example(
        gold=TaskGold(of="verifiers:echoes", entry="{}"),
        line={"gold": {"of": "verifiers:echoes", "entry": "{}"}},
        shown="verifiers:echoes",
        right="four",
        wrong="five",
        no_answer="",
    ),
    "hops": Example(
        gold=HopsGold(entity=7),
        line={"entity": 7},
        shown="7",
        right="12\n107",
        wrong="7\n12",
        no_answer="7\n7 or 8",
    ),
}
