"""A small server instead of an engine: real processes, real HTTP, no model.

It takes the command lines of vLLM and SGLang, so the code under test starts it like them. Further
options make it fail as engines do. Run as a script, never imported.
"""

import argparse
import json
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.shared_memory import SharedMemory

parser = argparse.ArgumentParser()
parser.add_argument("-m")
parser.add_argument("--served-model-name")
parser.add_argument("--port", type=int)
parser.add_argument("--die", action="store_true", help="end before the port is open")
parser.add_argument("--bind-once", type=pathlib.Path, help="a file; it opens its port once there")
parser.add_argument("--share-port", action="store_true", help="let others listen beside it")
parser.add_argument("--workers", action="store_true", help="children that do not end when asked")
parser.add_argument("--shared-memory", action="store_true", help="a block that is never unlinked")
parser.add_argument("--no-core", action="store_true", help="lists its model, and draws nothing")
parser.add_argument("--queue", action="store_true", help="busy for ever after the first token")
parser.add_argument("--stall", action="store_true", help="draws nothing after the first token")
parser.add_argument("--stuck-once", type=pathlib.Path, help="the first load of all never ends")
ARGUMENTS, _ = parser.parse_known_args()
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
LOADED: dict[str, str] = {}
COUNTS = {"tokens": 0, "looks": 0}
STARTED = threading.Event()
STUCK = threading.Event()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/metrics":
            COUNTS["looks"] += 1
            self.answer(200, f"# HELP\nsmall:generation_tokens_total {COUNTS['tokens']}\n")
        elif self.path == "/looks":
            self.answer(200, str(COUNTS["looks"]))
        else:
            names = [ARGUMENTS.served_model_name, *LOADED]
            self.answer(200, {"data": [{"id": name} for name in names]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/load_lora_adapter"):
            if ARGUMENTS.stuck_once and not ARGUMENTS.stuck_once.exists():
                ARGUMENTS.stuck_once.touch()
                STUCK.set()
                time.sleep(600)
            LOADED[body["lora_name"]] = body["lora_path"]
            self.answer(200, {})
        elif self.path.endswith("/unload_lora_adapter"):
            del LOADED[body["lora_name"]]
            self.answer(200, {})
        # SGLang's names of adapters are those after a colon.
        elif body["model"].split(":")[-1] not in (ARGUMENTS.served_model_name, *LOADED):
            self.answer(404, {"error": f"no model {body['model']}"})
        elif ARGUMENTS.no_core:
            self.answer(500, {"error": "the core is dead"})
        else:
            waits = ARGUMENTS.queue or ARGUMENTS.stall
            if STUCK.is_set() or (waits and STARTED.is_set()):
                time.sleep(600)
            STARTED.set()
            COUNTS["tokens"] += 1
            self.answer(200, {"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}})

    def answer(self, status, body):
        content = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self):
        if ARGUMENTS.share_port:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


def work():
    STARTED.wait()
    while True:
        time.sleep(0.05)
        COUNTS["tokens"] += 1


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
if ARGUMENTS.die:
    print("loading the model", flush=True)
    sys.exit("ValueError: this model cannot be served")
if ARGUMENTS.workers:
    subprocess.Popen([sys.executable, "-c", STUBBORN])
    subprocess.Popen([sys.executable, "-c", STUBBORN], start_new_session=True)
if ARGUMENTS.shared_memory:
    print("block", SharedMemory(create=True, size=64).name, flush=True)
if ARGUMENTS.queue:
    threading.Thread(target=work, daemon=True).start()
while ARGUMENTS.bind_once and not ARGUMENTS.bind_once.exists():
    time.sleep(0.02)
Server(("127.0.0.1", ARGUMENTS.port), Handler).serve_forever()
