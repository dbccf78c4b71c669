"""`reasonloop kuberay`: a run on Kubernetes, as a manifest for the KubeRay operator."""

import sys
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import AT_LEAST_ONE, AT_LEAST_ZERO
from flows.ray.kuberay import manifest, read_request


def kuberay(  # noqa: PLR0913 - one argument per option
    *run_arguments: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="Further arguments of `reasonloop run`.")
    ],
    image: Annotated[str, Parameter(help="Container image with reasonloop installed.")],
    claim: Annotated[
        str, Parameter(help="PersistentVolumeClaim (ReadWriteMany) of the workspace.")
    ],
    api_url: Annotated[str, Parameter(help="PREFECT_API_URL, as pods reach it.")],
    name: str = "reasonloop",
    namespace: str = "default",
    workers: Annotated[int, Parameter(help="Worker pods.", validator=AT_LEAST_ONE)] = 2,
    cpus: Annotated[int, Parameter(help="CPUs of a worker.", validator=AT_LEAST_ONE)] = 8,
    memory_gib: Annotated[int, Parameter(help="GiB of a worker.", validator=AT_LEAST_ONE)] = 32,
    gpus: Annotated[int, Parameter(help="GPUs of a worker.", validator=AT_LEAST_ZERO)] = 0,
    head_cpus: Annotated[int, Parameter(help="CPUs of the head.", validator=AT_LEAST_ONE)] = 4,
    head_memory_gib: Annotated[
        int, Parameter(help="GiB of the head, which trains where no worker has a GPU.")
    ] = 16,
    secret: Annotated[
        str | None, Parameter(help="Secret whose keys become environment variables.")
    ] = None,
) -> None:
    """Print a RayJob that runs the loop on Kubernetes; a retried job resumes its workspace.

    **Example:**

        reasonloop kuberay --image registry/reasonloop:1 --claim shared --gpus 1
        --api-url http://prefect:4200/api -- --profile smoke | kubectl apply -f -
    """
    request = read_request(
        {
            "name": name,
            "namespace": namespace,
            "image": image,
            "claim": claim,
            "api_url": api_url,
            "head": {"cpus": head_cpus, "memory_gib": head_memory_gib},
            "worker": {"cpus": cpus, "memory_gib": memory_gib, "gpus": gpus},
            "num_workers": workers,
            "secret": secret,
        }
    )
    sys.stdout.write(manifest(request, run_arguments))
