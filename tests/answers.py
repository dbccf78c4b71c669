"""Answers of every kind, as lines of `reasonloop verify`."""

ANSWERS = [
    {"id": "m1", "kind": "math", "gold": "1/2", "text": "thus \\boxed{0.5}"},
    {"id": "m2", "kind": "math", "gold": "18", "text": "The answer is 18."},
    {"id": "c1", "kind": "countdown", "numbers": [3, 5, 3], "target": 24, "text": "3+5=8\n8*3=24"},
    {"id": "c2", "kind": "countdown", "numbers": [5], "target": 10, "text": "5+5=10"},
    {"id": "g1", "kind": "arc", "gold": [[1, 2]], "text": "```\n1 2\n```"},
    {"id": "g2", "kind": "arc", "gold": [[1, 2]], "text": "[[1, 2]]"},
    {
        "id": "p1",
        "kind": "code",
        "entry_point": "add",
        "tests": "assert add(1, 2) == 3",
        "text": "```python\ndef add(a, b):\n    return a + b\n```",
    },
    {
        "id": "p2",
        "kind": "code",
        "entry_point": "add",
        "tests": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
        "text": "import os\ndef add(a, b):\n    os._exit(0)",
    },
]
