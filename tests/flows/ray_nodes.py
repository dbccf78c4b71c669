"""Ray nodes as an operator starts them: `ray start` in processes of their own, all on this machine."""

import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psutil

from flows.server.server import unused_port

START_TIMEOUT_S = 120.0


@dataclass
class Node:
    """A `ray start --block` and all that it has started."""

    process: subprocess.Popen[bytes]
    folder: pathlib.Path

    @property
    def log(self) -> str:
        return (self.folder / "start.log").read_text("utf-8", "replace")

    def worker_pids(self) -> set[int]:
        """Process ids of the workers that this node has ever started, by the names of their logs."""
        logs = self.folder.rglob("worker-*.out")
        return {int(path.stem.rpartition("-")[2]) for path in logs if not path.is_symlink()}

    def kill(self) -> None:
        """End every process of the node at once, as a power failure does."""
        if self.process.poll() is None:
            family = psutil.Process(self.process.pid).children(recursive=True)
            for process in (psutil.Process(self.process.pid), *family):
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
            psutil.wait_procs(family, timeout=10)
        self.process.wait()


@dataclass
class RayNodes:
    """Nodes of one cluster with a token of its own."""

    folder: pathlib.Path
    environment: Mapping[str, str]
    nodes: list[Node] = field(default_factory=list)
    address: str = ""
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def access(self) -> dict[str, str]:
        """Variables of a process that may connect."""
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}

    def add(
        self,
        *options: str,
        cpus: int = 1,
        gpus: int = 0,
        hidden: Sequence[pathlib.Path] = (),
        variables: Mapping[str, str] | None = None,
    ) -> Node:
        """Start a node, the head first; it sees an empty folder at each of ``hidden``."""
        head = not self.nodes
        folder = self.folder / f"n{len(self.nodes)}"
        folder.mkdir(parents=True)
        port = unused_port()
        place = (
            ("--head", f"--port={port}", "--include-dashboard=false")
            if head
            else (f"--address={self.address}",)
        )
        command = [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *place),
            *(f"--num-cpus={cpus}", f"--num-gpus={gpus}", f"--temp-dir={folder}"),
            *("--disable-usage-stats", "--log-color=false", *options),
        ]
        if hidden:
            mounts = " && ".join(f"mount -t tmpfs none '{path}'" for path in hidden)
            command = ["unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh", *command]
        own = {**self.environment, **self.access, **(variables or {})}
        if gpus:
            # Ray declares no GPU beyond those that are visible.
            own.pop("CUDA_VISIBLE_DEVICES", None)
        with (folder / "start.log").open("wb") as stream:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=own,
                start_new_session=True,
            )
        node = Node(process=process, folder=folder)
        self.nodes.append(node)
        self._wait_for(node)
        if head:
            [ip] = re.findall(r"Local node IP: (\S+)", node.log)
            self.address = f"{ip}:{port}"
        return node

    def _wait_for(self, node: Node) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while "Ray runtime started" not in node.log:
            assert node.process.poll() is None, node.log
            assert time.monotonic() < deadline, node.log
            time.sleep(0.2)

    def stop(self) -> None:
        """End all nodes, workers first started last."""
        for node in reversed(self.nodes):
            node.kill()


def end(process: subprocess.Popen[str]) -> None:
    """Kill a command and what it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
