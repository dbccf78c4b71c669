"""Released traces become the data folder that the same searches give, and are trained on."""

import itertools
import json

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.apr import AprDataParams, AprModelParams, AprParams, AprSftParams
from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.store.shards import iter_table
from pipeline_lib.systems.apr.data_folder import generate_data, problem_file, traces_folder
from pipeline_lib.systems.apr.model_record import read_record
from pipeline_lib.systems.apr.problem_lines import read_problems
from pipeline_lib.systems.apr.released import import_traces
from pipeline_lib.systems.apr.sft import train_on_traces

DATA = AprDataParams(
    style="published",
    countdown=CountdownParams(num_numbers=4, high=99),
    train_problems=6,
    valid_problems=1,
    test_problems=1,
)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ours") / "data"
    generate_data(DATA, folder, seed=3, workers=1)
    return folder


def rows_of(data, kind):
    """The rows of each problem, in order."""
    found = {}
    for row in iter_table(traces_folder(data, kind)):
        found.setdefault(row.pop("problem_id"), []).append(row)
    return [*found.values()]


def released(data, kind, path):
    """Our own traces in the released form."""
    items = []
    problems = read_problems(problem_file(data, "train"))
    for problem, rows in zip(problems, rows_of(data, kind), strict=True):
        texts = [row["prefix"] + row["output"] for row in rows]
        roots = [place for place, row in enumerate(rows) if row["role"] == "parent"]
        subs = [
            [{"main_calls": [text], "sub_calls": []} for text in texts[first + 1 : behind]]
            for first, behind in itertools.pairwise(roots)
        ]
        form = (
            {"search_path": texts[0]}
            if kind == "serial"
            else {"trace_dict": {"main_calls": [texts[one] for one in roots], "sub_calls": subs}}
        )
        items.append(
            {"nums": problem.gold.numbers, "target": problem.gold.target, "rating": 0.5, **form}
        )
    path.write_text(json.dumps(items), "utf-8")
    return path


@pytest.mark.parametrize("kind", ["parallel", "serial"])
def test_a_released_file_has_the_rows_of_its_searches(ours, tmp_path, kind):
    """Prefixes, outputs, roles, rounds, conditions; only ids differ."""
    file = released(ours, kind, tmp_path / "released.json")
    model = tmp_path / "model"
    model.mkdir()
    import_traces(file, tmp_path / "data", model=model)
    found, expected = (rows_of(one, kind) for one in (tmp_path / "data", ours))
    assert found == expected
    record = read_record(model)
    assert (record.kind, record.style, record.num_numbers) == (kind, "published", 4)
    assert {row["condition"] for rows in expected for row in rows} <= {*record.conditions}


def test_a_model_is_trained_on_a_released_file(ours, tmp_path):
    """The folder is one that `reasonloop apr train` takes."""
    file = released(ours, "parallel", tmp_path / "released.json")
    data, model = tmp_path / "data", tmp_path / "model"
    import_traces(file, data)
    params = AprParams(
        model=AprModelParams(window=2048, hidden_size=16, feed_forward_size=16, num_layers=1),
        sft=AprSftParams(tokens=2000, step_tokens=2048, precision="float32", conditioned=1.0),
    )
    manifest = train_on_traces(data, "parallel", model, params, seed=1)
    assert manifest.counts["trained_tokens"] >= 2000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "Input should be a valid list; give a JSON list of traces"),
        ([{"nums": [1, 2]}], "0.target: Field required"),
        ([{"nums": [1, 2], "target": 3}], "0: neither trace_dict nor search_path"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    """In one line, with the place."""
    (tmp_path / "a.json").write_text(json.dumps(content), "utf-8")
    with pytest.raises(BadInputError, match=message):
        import_traces(tmp_path / "a.json", tmp_path / "data")
