"""pass@k of one model on whole data sets: draw, judge, score."""

from prefect import flow

from flows.parallel.draws import draw_each
from flows.ray.runners import cluster, task_runner
from flows.run.guard import run_guard
from pipeline_lib.systems.loop.benchmark import BENCHMARK
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import timed_stage
from tasks.loop import plan_benchmark, write_benchmark


@flow(name="benchmark", flow_run_name="benchmark-{model}", validate_parameters=False)
def benchmark(run: Run, model: str) -> None:
    """Draw and judge the paths of each data set, and write the study; finished shards are reused."""
    with run_guard(BENCHMARK, run), timed_stage(run.root, "evaluate"):
        draws = plan_benchmark(run, model)
        draw_each(draws)
        write_benchmark(draws)


def run_benchmark(run: Run, model: str) -> None:
    """Benchmark a model on the runner of the params."""
    with cluster(run.params.execution, run.root):
        benchmark.with_options(task_runner=task_runner(run.params.execution))(run, model)
