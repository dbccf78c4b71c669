"""`reasonloop deploy`: deployments, work pool and automations on the Prefect server."""

import pathlib
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.platform.prefect_file import read_prefect_file
from flows.platform.systemd import units
from flows.run.terminal import console, say
from flows.server import server
from pipeline_lib import defaults
from pipeline_lib.errors import BadInputError

if TYPE_CHECKING:
    from flows.platform.registration import Registered

_UNTOUCHED = {"same": "unchanged", "not wanted": "not set  "}
_DONE = {"missing": "created  ", "different": "changed  ", **_UNTOUCHED}
_PLANNED = {"missing": "to create", "different": "to change", **_UNTOUCHED}


def deploy(
    *,
    file: Annotated[
        pathlib.Path | None,
        Parameter(
            help="Deployments in Prefect's format; default: prefect.yaml of this folder, else the one "
            "of the package."
        ),
    ] = None,
    dry_run: Annotated[bool, Parameter(negative="", help="Print what would be done.")] = False,
    remove: Annotated[
        bool, Parameter(negative="", help="Remove what this command has registered.")
    ] = False,
    systemd: Annotated[
        bool, Parameter(negative="", help="Print units of systemd for server and worker.")
    ] = False,
) -> None:
    """Register the deployments of prefect.yaml, their work pool and automations; again changes nothing.

    A worker runs them: `prefect worker start --pool reasonloop --type process`, started in the folder
    of the workspaces. Automations mark runs without heartbeats as crashed and notify a person of
    failed and crashed runs, by the addresses in REASONLOOP_WEBHOOK_URL (JSON), REASONLOOP_SLACK_URL
    and REASONLOOP_EMAIL_URL (mailtos://USER:PASSWORD@HOST?to=ADDRESS).

    **Examples:**

        reasonloop deploy --dry-run
        reasonloop deploy
        reasonloop deploy --systemd
        reasonloop deploy --remove
    """
    if (remove and (dry_run or systemd)) or (dry_run and systemd):
        raise BadInputError("--dry-run, --remove and --systemd: give one of them")
    definitions = read_prefect_file(file or defaults.find_file(defaults.PREFECT))
    if systemd:
        console.print(
            units(definitions.pools, pathlib.Path.cwd()), end="", markup=False, soft_wrap=True
        )
        return
    ui_url = server.ensure()
    # Prefect reads the server's address when it is imported.
    from prefect import get_client  # noqa: PLC0415 - see above

    from flows.platform.alerts import ALERTS, CHANNELS  # noqa: PLC0415 - as above
    from flows.platform.registration import Deployed, Pool  # noqa: PLC0415 - as above

    pools = [Pool(name) for name in definitions.pools]
    deployed = [Deployed(definition) for definition in definitions.deployments]
    wanted: list[Registered] = [*pools, *deployed, *CHANNELS, *ALERTS]
    with get_client(sync_client=True) as client:
        # Pools and channels last: what uses them goes first.
        for one in reversed(wanted) if remove else wanted:
            if remove:
                say(f"{'removed  ' if one.remove(client) else 'not there'} {one.title}")
                continue
            state = one.state(client)
            if state not in _UNTOUCHED and not dry_run:
                one.write(client)
            say(f"{(_PLANNED if dry_run else _DONE)[state]} {one.title}")
    _say_next(ui_url, definitions.pools, remove=remove)


def _say_next(ui_url: str, pools: list[str], *, remove: bool) -> None:
    say(f"\nPrefect UI: {ui_url}")
    for pool in [] if remove else pools:
        say(
            f"a worker runs them: PREFECT_API_URL={ui_url}/api prefect worker start --pool {pool} "
            "--type process"
        )
