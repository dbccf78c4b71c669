"""Lines of answers: accepted forms, and errors of bad lines."""

import json
import math
from collections import Counter

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import FinishReason
from pipeline_lib.store.files import digest_json, read_json_lines
from pipeline_lib.verify.lines import CHUNK_LINES, groups_from_lines, read_lines, verify_lines

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
    """Lines are numbered as in the file, blank lines, byte-order mark and CRLF included."""
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
    """Samples of lm-eval, and a log of Inspect as JSON: what they are, and what reads them. A text suffices."""
    lm_eval, inspect = tmp_path / "samples_gsm8k.jsonl", tmp_path / "log.json"
    lm_eval.write_text(json.dumps(SAMPLE) + "\n", "utf-8")
    inspect.write_text(
        '{\n "version": 2,\n "status": "success",\n "eval": {"eval_id": "e"}}', "utf-8"
    )
    with pytest.raises(
        BadInputError, match=r"a file of samples of lm-evaluation-harness; .*import-rollouts"
    ):
        list(read_lines(lm_eval))
    with pytest.raises(BadInputError, match=r"log\.json: is a log of Inspect; .*import-rollouts"):
        list(read_lines(inspect))
    lm_eval.write_text(json.dumps(SAMPLE | {"text": "2", "gold": "2"}), "utf-8")
    assert [line.text for line in read_lines(lm_eval)] == ["2"]


KEYS = ["id", "status", "strict", "lenient", "extracted", "rule", "score", "detail", "seconds"]


def _row(name, gold, text, **more):
    return {"id": name, "kind": "math", "gold": gold, "text": text, **more}


MIXED = [
    _row("a", "5", "\\boxed{5}", label=True),
    _row("b", "5", "#### 5", label=False),
    _row("c", "5", "\\boxed{6}", label=False),
    _row("d", "5", None, label=True),
    _row("e", "", "\\boxed{6}", label=False),
    {"id": "f", "kind": "countdown", "numbers": [3, 5], "target": 8, "text": "3+5=8"},
    _row("g", "5", "\ud800"),
]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in MIXED), encoding="utf-8")
    return path


def _written(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_one_verdict_line_per_line(tmp_path, source):
    """Output lines are in input order and have exactly the promised keys."""
    output = tmp_path / "out.jsonl"
    verify_lines(source, output, VerifyParams())
    rows = _written(output)
    assert [list(row) for row in rows] == [KEYS] * len(MIXED)
    assert [(row["id"], row["status"], row["strict"], row["lenient"]) for row in rows] == [
        ("a", "correct", True, True),
        ("b", "correct", False, True),
        ("c", "wrong", False, False),
        ("d", "malformed", False, False),
        ("e", "verifier_error", None, None),
        ("f", "correct", True, True),
        ("g", "unparsed", False, False),
    ]


def test_figures_of_a_file(tmp_path, source):
    """6 of 7 lines are scored: 2 strictly right, 3 leniently, 1 of them only leniently."""
    summary = verify_lines(source, tmp_path / "out.jsonl", VerifyParams())
    assert (summary.num_lines, summary.num_scored) == (7, 6)
    assert (summary.num_strict, summary.num_lenient) == (2, 3)
    assert summary.by_status["correct"] == 3
    assert list(summary.unscored_ids.values()) == [["e"]]
    assert summary.refused_by_rule == {"hashes": 1}
    assert summary.samples == [{"id": "b", "rule": "hashes", "tail": "#### 5"}]


def test_agreement_with_labels(tmp_path, source):
    """a and c agree; b is right but labelled false; d is labelled true; e was not judged."""
    summary = verify_lines(source, tmp_path / "out.jsonl", VerifyParams())
    assert (summary.num_labelled, summary.disagreeing_ids) == (4, ["b", "d"])
    assert summary.num_labelled_wrong_but_right == 1


def test_no_labels_no_agreement(tmp_path):
    """An empty file has metrics, and no line with a label."""
    source = tmp_path / "in.jsonl"
    source.write_text("", encoding="utf-8")
    summary = verify_lines(source, tmp_path / "out.jsonl", VerifyParams())
    assert (summary.num_lines, summary.num_scored, summary.num_labelled) == (0, 0, 0)
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == ""


def test_a_bad_line_stops_everything(tmp_path, source):
    """Nothing is judged or written, and an earlier output stays, if any line is bad."""
    with source.open("a", encoding="utf-8") as stream:
        stream.write('{"id": "z", "gold": "5"}\n')
    output = tmp_path / "out.jsonl"
    output.write_text("earlier", encoding="utf-8")
    progress = []
    with pytest.raises(BadInputError, match=r"in\.jsonl:8: text"):
        verify_lines(
            source, output, VerifyParams(), on_progress=lambda *step: progress.append(step)
        )
    assert output.read_text(encoding="utf-8") == "earlier"
    assert progress == []


def test_a_repeated_id_is_refused(tmp_path, source):
    """Its verdicts could not be told apart; both lines are named. Lines without an id need none."""
    with source.open("a", encoding="utf-8") as stream:
        stream.write('{"problem_id": "p", "gold": "5", "text": "5"}\n' * 2)
        stream.write('{"id": "b", "gold": "5", "text": "5"}\n')
    with pytest.raises(BadInputError, match=r"in\.jsonl:10: id: 'b' is also at line 2"):
        verify_lines(source, tmp_path / "out.jsonl", VerifyParams())
    assert not (tmp_path / "out.jsonl").exists()


def test_a_concatenated_file_makes_no_groups(tmp_path, source):
    """A path that is there twice, as after a resumed draw, would count twice in pass@k and in rows."""
    source.write_text(source.read_text("utf-8") * 2, "utf-8")
    with pytest.raises(BadInputError, match=r"in\.jsonl:8: id: 'a' is also at line 1; remove one"):
        groups_from_lines(source, VerifyParams())


def test_the_input_is_never_overwritten(source):
    """Reading and writing the same file is refused."""
    with pytest.raises(BadInputError, match="is the input itself"):
        verify_lines(source, source, VerifyParams())


def test_chunks_and_workers_change_nothing(tmp_path):
    """Lines of three chunks are equal to the lines of one worker, and progress counts up."""
    source = tmp_path / "in.jsonl"
    number = 2 * CHUNK_LINES + 76
    rows = [_row(str(n), "x^2-1", f"\\boxed{{x^2-{n % 3}}}") for n in range(number)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    progress = []
    verify_lines(source, tmp_path / "one.jsonl", VerifyParams())
    verify_lines(
        source,
        tmp_path / "two.jsonl",
        VerifyParams(),
        workers=2,
        on_progress=lambda *step: progress.append(step),
    )
    one, two = _written(tmp_path / "one.jsonl"), _written(tmp_path / "two.jsonl")
    for row in (*one, *two):
        del row["seconds"]
    assert one == two
    assert sum(row["lenient"] for row in one) == len(range(1, number, 3))
    assert progress == [(CHUNK_LINES, number), (2 * CHUNK_LINES, number), (number, number)]


def test_groups(tmp_path):
    """Lines of one problem are one group, its paths numbered in order; the model is kept."""
    rows = [
        {"problem_id": "p", "question": "3+4?", "gold": "7", "text": "\\boxed{7}", "model": "m"},
        {"problem_id": "q", "gold": "1", "text": None},
        {"problem_id": "p", "question": "3+4?", "gold": "7", "text": "#### 8"},
    ]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    first, second = groups_from_lines(source, VerifyParams())
    assert (first.problem.id, first.problem.question, second.problem.id) == ("p", "3+4?", "q")
    assert [(m.path.id, m.verdict.lenient) for m in first.members] == [
        ("p#0", True),
        ("p#1", False),
    ]
    assert [m.path.provenance.model for m in first.members] == ["m", "recorded"]
    assert second.members[0].verdict.status == "malformed"


def test_a_path_that_was_never_drawn_scores_nothing(tmp_path):
    """Between two judged lines the failed one has no score; a null text alone is malformed."""
    rows = [
        {"problem_id": "p", "gold": "7", "text": "\\boxed{7}", "finish_reason": "length"},
        {"problem_id": "p", "gold": "7", "text": None, "finish_reason": "error"},
        {"problem_id": "p", "gold": "7", "text": None, "completion_tokens": 3},
    ]
    expected = [
        ("correct", True, True),
        ("verifier_error", None, None),
        ("malformed", False, False),
    ]
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    verify_lines(source, output, VerifyParams())
    assert [(r["status"], r["strict"], r["lenient"]) for r in _written(output)] == expected
    (group,) = groups_from_lines(source, VerifyParams())
    verdicts = [member.verdict for member in group.members]
    assert [(v.status.value, v.strict, v.lenient) for v in verdicts] == expected
    paths = [member.path for member in group.members]
    assert [path.finish_reason.value for path in paths] == ["length", "error", "stop"]
    assert [path.completion_tokens for path in paths] == [0, 0, 3]
    assert [path.error for path in paths] == [None, "not sampled", None]


def test_one_problem_has_one_gold(tmp_path):
    """Two golds under one problem id would mix two problems; they are refused."""
    rows = [{"problem_id": "p", "gold": gold, "text": "7"} for gold in "78"]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(BadInputError, match="problem p has two"):
        groups_from_lines(source, VerifyParams())


def test_agreement_on_answers_of_our_own(tmp_path, synthetic_data):
    """Four labels on worked references are met; of nine on boxed answers one refuses a right time;
    of 32 paths the 4 that are right and not boxed are refused."""
    words, maths, paths = (
        _summary(tmp_path, synthetic_data, name)
        for name in ("gsm8k_labelled", "math_labelled", "gsm8k_qwen7b_paths")
    )
    assert (words.num_labelled, words.disagreeing_ids) == (4, [])
    assert maths.num_labelled == 9
    assert maths.disagreeing_ids == ["made-2#0"]
    assert maths.num_labelled_wrong_but_right == 1
    assert paths.num_labelled == 32
    assert len(paths.disagreeing_ids) == paths.num_labelled_wrong_but_right == 4
    assert paths.num_lenient == 16


def _summary(tmp_path, folder, name):
    source = folder / "recorded" / f"{name}.jsonl"
    return verify_lines(source, tmp_path / "out.jsonl", VerifyParams(), workers=2)


RECORDED = ("gsm8k_labelled", "math_labelled", "gsm8k_qwen7b_paths")


@pytest.fixture(scope="module")
def recorded(reference_data, tmp_path_factory):
    """Summary and verdict lines of each recorded file."""
    found = {}
    for name in RECORDED:
        folder = tmp_path_factory.mktemp(name)
        summary = _summary(folder, reference_data, name)
        found[name] = summary, list(read_json_lines(folder / "out.jsonl"))
    return found


@pytest.mark.parametrize("name", RECORDED)
def test_verdicts_on_recorded_answers(recorded, snapshot, name):
    """Their number by status, rule and score, and a digest of all lines without seconds.

    Recorded again by ``pytest tests/unit/verify/test_lines.py --snapshot-update``.
    """
    summary, rows = recorded[name]
    assert snapshot == {
        "lines": summary.num_lines,
        "scored": summary.num_scored,
        "strict": summary.num_strict,
        "lenient": summary.num_lenient,
        "by status": dict(summary.by_status),
        "by rule": dict(Counter(row["rule"] or "none" for row in rows)),
        "digest": digest_json(
            [
                {key: row[key] for key in KEYS if key not in {"detail", "score", "seconds"}}
                for row in rows
            ]
        ),
    }


def test_agreement_on_recorded_gsm8k(recorded):
    """All 1,320 labels of four models' answers are met."""
    summary = recorded["gsm8k_labelled"][0]
    assert (summary.num_labelled, summary.disagreeing_ids) == (1320, [])


def test_agreement_on_recorded_math(recorded):
    """312 of 320 labels are met; the others refuse ``4:30 \\text{ p.m.}`` for 4:30 p.m."""
    summary = recorded["math_labelled"][0]
    wrong_labels = [f"math-3#{index}" for index in range(8)]
    assert summary.num_labelled == 320
    assert summary.disagreeing_ids == wrong_labels
    assert summary.num_labelled_wrong_but_right == len(wrong_labels)


def test_right_paths_that_a_format_bound_verifier_refused(recorded):
    """Of 324 refused paths 302 are right, none of the 676 accepted ones is wrong."""
    summary, _ = recorded["gsm8k_qwen7b_paths"]
    assert len(summary.disagreeing_ids) == summary.num_labelled_wrong_but_right == 302
    assert summary.num_lenient == 978
