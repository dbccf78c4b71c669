"""`reasonloop deploy`: deployments, work pool and automations on the Prefect server."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from flows.run.terminal import say
from flows.server import server
from pipeline_lib import defaults
from pipeline_lib.errors import BadInputError


def deploy(
    *,
    file: Annotated[
        pathlib.Path | None,
        Parameter(
            help="Deployments in Prefect's format; default: prefect.yaml of this folder, else the one "
            "of the package."
        ),
    ] = None,
    schedule: Annotated[
        tuple[str, ...],
        Parameter(help="NAME='CRON [ZONE]': when a deployment runs; the zone is UTC by default."),
    ] = (),
    dry_run: Annotated[bool, Parameter(negative="", help="Check all, and write nothing.")] = False,
    remove: Annotated[
        bool, Parameter(negative="", help="Remove what this command has registered.")
    ] = False,
    systemd: Annotated[bool, Parameter(negative="", show=False)] = False,
) -> None:
    """Register the deployments of prefect.yaml, their work pool and automations.

    A worker runs them: `prefect worker start --pool reasonloop --type process`, started in the folder
    of the workspaces. No deployment runs by itself before it has a schedule; schedules that were made in
    the UI stay. Automations mark runs without heartbeats as crashed and notify a person of failed and
    crashed runs, by the addresses in REASONLOOP_WEBHOOK_URL (JSON), REASONLOOP_SLACK_URL and
    REASONLOOP_EMAIL_URL (mailtos://USER:PASSWORD@HOST?to=ADDRESS).

    **Examples:**

        reasonloop deploy --dry-run
        reasonloop deploy --schedule evaluate='0 8 * * 1 Europe/Berlin'
        reasonloop deploy --remove
    """
    if systemd:
        raise BadInputError("--systemd: the units are now in docs/guide.md, Unattended runs")
    ui_url = server.ensure()
    # Prefect reads the server's address when it is imported.
    from prefect import get_client  # noqa: PLC0415 - see above

    from flows.platform import registration  # noqa: PLC0415 - as above

    path = file or defaults.find_file(defaults.PREFECT)
    content, names = registration.read_deployments(path, schedule)
    registration.check_addresses()
    with get_client(sync_client=True) as client:
        if remove:
            registration.remove_automations(client)
            registration.unregister(client, content, names)
        elif not dry_run:
            registration.register(client, content)
            registration.save_automations(client)
    done = "removed" if remove else "to register" if dry_run else "registered"
    for name, one in zip(names, content["deployments"], strict=True):
        times = [" ".join(map(str, at.values())) for at in one.get("schedules", [])]
        say(f"{done} {name}" + (f", at {'; '.join(times)}" if times else ""))
    say(f"\nPrefect UI: {ui_url}")
    for pool in () if remove else registration.pools_of(content):
        say(
            f"a worker runs them: PREFECT_API_URL={ui_url}/api prefect worker start --pool {pool} "
            "--type process"
        )
