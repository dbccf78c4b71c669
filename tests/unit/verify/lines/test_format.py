"""Lines of answers: accepted forms, and errors of bad lines."""

import json
import math

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.records import FinishReason
from pipeline_lib.verify.lines.format import read_lines

MATH = {"id": "a", "kind": "math", "gold": "5", "text": "\\boxed{5}"}
COUNTDOWN = {"id": "b", "kind": "countdown", "numbers": [3, 5], "target": 8, "text": "3+5=8"}
CODE = {"id": "c", "kind": "code", "entry_point": "f", "tests": "assert f()", "text": "def f(): 1"}
ARC = {"id": "d", "kind": "arc", "gold": [[1, 2], [3, 4]], "text": "```\n1 2\n3 4\n```"}


def _read(tmp_path, *rows):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return list(read_lines(path))


def test_the_kinds(tmp_path):
    """Each kind of line carries the gold of its kind."""
    lines = _read(tmp_path, MATH, COUNTDOWN, CODE, ARC)
    assert [line.id for line in lines] == ["a", "b", "c", "d"]
    assert [line.gold for line in lines] == [
        MathGold(answer="5"),
        CountdownGold(numbers=(3, 5), target=8),
        CodeGold(entry_point="f", tests="assert f()"),
        ArcGold(output=((1, 2), (3, 4))),
    ]


def test_published_lines(tmp_path):
    """Without kind and id: math, numbered within the problem; both names of a label are read."""
    rows = [
        {"problem_id": "p", "question": "?", "gold": "7", "text": "7", "label_by_source": True},
        {"problem_id": "p", "question": "?", "gold": "7", "text": "8", "label": False},
        {"problem_id": "q", "reference": "3+4=7\nA: 7", "text": "7", "model": "m"},
    ]
    lines = _read(tmp_path, *rows)
    assert [line.id for line in lines] == ["p#0", "p#1", "q#0"]
    assert [line.label for line in lines] == [True, False, None]
    assert [line.model for line in lines] == [None, None, "m"]
    assert {line.gold for line in lines} == {MathGold(answer="7")}


def test_unknown_keys_numbers_for_strings_and_null_texts(tmp_path):
    """Further keys are ignored; an id or a gold may be a number; a text may be missing as null."""
    (line,) = _read(tmp_path, {"id": 3, "gold": 5, "text": None, "extra": {}})
    assert (line.id, line.gold, line.text) == ("3", MathGold(answer="5"), None)


def test_how_a_path_ended(tmp_path):
    """Fields that `reasonloop sample` writes are kept; without them, a path ended by itself."""
    ended = {"finish_reason": "length", "prompt_tokens": 7, "completion_tokens": 9}
    cut, whole = _read(tmp_path, {**MATH, **ended}, {**MATH, "id": "b"})
    assert (cut.finish_reason, cut.prompt_tokens, cut.completion_tokens) == ("length", 7, 9)
    assert whole.finish_reason is FinishReason.STOP
    assert (whole.prompt_tokens, whole.completion_tokens) == (0, 0)


def test_lone_surrogates_are_read(tmp_path):
    """Text that is no valid Unicode reaches the verifier as it is."""
    (line,) = _read(tmp_path, {**MATH, "text": "\ud800 \\boxed{5}"})
    assert line.text == "\ud800 \\boxed{5}"


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({**MATH, "kind": "maths"}, "kind='maths'; expected one of math, countdown, code, arc"),
        ({**MATH, "kind": ["math"]}, "kind=['math']"),
        ({**MATH, "text": 5}, "text: expected a string, got int"),
        ({"id": "a", "gold": "5"}, "text: Field required"),
        ({"id": "a", "text": "5"}, "gold: Field required (or a reference)"),
        (
            {"id": "a", "text": "5", "gold": "5", "reference": "2+4=6\n#### 6"},
            "gold: the gold is not the answer of the reference ('6')",
        ),
        ({**MATH, "gold": True}, "gold: Input should be a valid string"),
        ({**MATH, "gold": math.nan}, "gold: expected a string or a finite number, got nan"),
        ({**MATH, "id": math.inf}, "id: expected a string or a finite number, got inf"),
        ({**MATH, "finish_reason": "tired"}, "finish_reason: Input should be 'stop', 'length' or"),
        ({**MATH, "completion_tokens": -1}, "completion_tokens: Input should be greater than"),
        ({**COUNTDOWN, "numbers": []}, "numbers: "),
        ({**COUNTDOWN, "numbers": ["3", 5]}, "numbers.0: "),
        ({**COUNTDOWN, "target": 8.5}, "target: "),
        ({**CODE, "tests": None}, "tests: "),
        ({**ARC, "gold": [[1, 2], [3]]}, "gold: row 2 has 1 cells, row 1 has 2"),
        ({**ARC, "gold": [[1, 10]]}, "gold: row 1 holds 10; colours are 0 to 9"),
        ({**ARC, "gold": "1 2"}, "gold: a grid is a list, not str"),
        ({"kind": "arc", "text": "1"}, "gold: Field required"),
        ([], "expected a JSON object"),
    ],
)
def test_a_bad_line_is_named(tmp_path, row, complaint):
    """The error says file, line and key."""
    with pytest.raises(BadInputError) as error:
        _read(tmp_path, MATH, row)
    assert f"{tmp_path / 'in.jsonl'}:2: {complaint}" in str(error.value)


def test_blank_lines_count(tmp_path):
    """Line numbers are those of the file, blank lines, byte-order mark and CRLF included."""
    path = tmp_path / "in.jsonl"
    good = b'{"gold": "5", "text": "5"}'
    path.write_bytes(b"\xef\xbb\xbf" + good + b"\r\n\r\n" + good + b"\r\n{")
    with pytest.raises(BadInputError, match=r"in\.jsonl:4: .*truncated"):
        list(read_lines(path))
    path.write_bytes(good.replace(b"5", b"\xff"))
    with pytest.raises(BadInputError, match=r"in\.jsonl:1: "):
        list(read_lines(path))


def test_all_bad_lines_are_named(tmp_path):
    """Two lines without a gold and one that is no JSON, in one error."""
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "1"}\n{"gold": "1", "text": "1"}\n{"text": "2"}\n{"te', "utf-8")
    with pytest.raises(BadInputError) as caught:
        list(read_lines(path))
    assert [part.split(":")[1] for part in str(caught.value).split(" | ")] == ["1", "3", "4"]


SAMPLE = {"doc_id": 0, "doc": {"text": "1+1?"}, "target": "2", "resps": [["2"]], "filter": "none"}


def test_a_log_of_another_program_is_named(tmp_path):
    """Samples of lm-eval, and a log of Inspect as JSON: what they are, and what to write. A text suffices."""
    lm_eval, inspect = tmp_path / "samples_gsm8k.jsonl", tmp_path / "log.json"
    lm_eval.write_text(json.dumps(SAMPLE) + "\n", "utf-8")
    inspect.write_text(
        '{\n "version": 2,\n "status": "success",\n "eval": {"eval_id": "e"}}', "utf-8"
    )
    with pytest.raises(
        BadInputError, match=r"a file of samples of lm-evaluation-harness.*\"text\"\}"
    ):
        list(read_lines(lm_eval))
    with pytest.raises(BadInputError, match=r"log\.json: is a log of Inspect, .*target and output"):
        list(read_lines(inspect))
    lm_eval.write_text(json.dumps(SAMPLE | {"text": "2", "gold": "2"}), "utf-8")
    assert [line.text for line in read_lines(lm_eval)] == ["2"]
