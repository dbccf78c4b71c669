"""`--seeds`: a whole system once a seed, as a user runs it."""

from pipeline_lib.store.files import read_json
from pipeline_lib.telemetry import events_size, read_events
from tests.flows.systems.test_latent_flow import TINY


def test_two_seeds_of_prr(reasonloop, tmp_path):
    """Each in a folder of its own, then both together; a second call repeats no step and adds a third seed."""
    profile, root = tmp_path / "tiny.yaml", tmp_path / "workspace"
    profile.write_text(TINY, encoding="utf-8")

    def run(seeds):
        return reasonloop(
            "prr", "run", "--workspace", root, "--profile", profile,
            "--set", "evaluate.resamples=200", "--seeds", seeds,
        )  # fmt: skip

    done = run("1,2")
    assert done.returncode == 0, done.stderr + done.stdout
    summary = root / "reports" / "prr" / "seeds" / "seeds.json"
    assert [one["seed"] for one in read_json(summary)["seeds"]] == [1, 2]
    sizes = {seed: events_size(root / f"seed-{seed}") for seed in (1, 2)}
    assert run("1,2,3").returncode == 0
    for seed, offset in sizes.items():
        events = read_events(root / f"seed-{seed}", offset=offset)
        assert "prr-train" not in {one.get("stage") for one in events}
    assert [one["seed"] for one in read_json(summary)["seeds"]] == [1, 2, 3]
