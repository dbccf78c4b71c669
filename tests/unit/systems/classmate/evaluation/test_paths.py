"""Paths of evaluated policies: shards on disk, and what is drawn again."""

from contextlib import nullcontext

from benchmarks.lib.scripted import ScriptedModel
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import SampleParams, VerifyParams
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.classmate.evaluation import draws
from pipeline_lib.verify.dispatch import open_verifier
from tests.unit.systems.classmate.tiny_training import PROBLEMS

PARAMS = Params(
    sample=SampleParams(num_paths=2, shard_size=1),
    evaluate=EvaluateParams(ks=(1, 2), num_paths=4),
)


def test_paths_that_were_not_drawn_are_drawn_again(tmp_path, monkeypatch):
    """Of the problem whose requests failed; the shard of the other one is read."""
    asked = []
    fails = True

    def answer(prompt, _seed):
        asked.append(prompt)
        return None if fails and len(asked) == 5 else "2+3=5"

    engine = ScriptedModel(answer=answer)
    monkeypatch.setattr(draws, "started_engine", lambda *_, **__: nullcontext(engine))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")

    def draw():
        with open_verifier(VerifyParams()) as verifier:
            groups = draws.judged_groups(
                str(tmp_path / "model"),
                PROBLEMS,
                tmp_path / "paths",
                PARAMS,
                verifier=verifier,
                log_folder=tmp_path,
                moved=lambda *_: None,
            )
        return [len(group.scored()) for group in groups]

    assert (draw(), len(asked)) == ([4, 3], 8)
    fails = False
    assert (draw(), len(asked)) == ([4, 4], 12)
    assert (draw(), len(asked)) == ([4, 4], 12)
