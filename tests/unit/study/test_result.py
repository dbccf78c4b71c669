"""The result of an evaluation survives being stored."""

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.store.files import write_checked
from pipeline_lib.study.result import RESULT_NAME, evaluate_policies, read_result
from tests.unit.study.judged_groups import judged_group

PARAMS = EvaluateParams(num_paths=4, ks=(1, 2), resamples=200)


def test_json_round_trip(tmp_path):
    """JSON round trip, including every interval and flip."""
    base = [judged_group(f"p{i}", "cwwf" if i % 2 else "wwlc") for i in range(12)]
    trained = [judged_group(f"p{i}", "cccx" if i % 3 else "ccwc") for i in range(12)]
    result = evaluate_policies(base, trained, PARAMS, seed=7)
    write_checked(tmp_path / RESULT_NAME, result)
    assert read_result(tmp_path) == result
