"""An API server of Kubernetes with the documents of the example."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.sources import ROOT

EXAMPLE = ROOT / "examples" / "kubernetes"
DOCUMENTS = {name: json.loads((EXAMPLE / f"{name}.json").read_text()) for name in ("nodes", "pods", "usage")}
PATHS = {"/api/v1/nodes": "nodes", "/api/v1/pods": "pods", "/apis/metrics.k8s.io/v1beta1/pods": "usage"}


class FakeServer(ThreadingHTTPServer):
    """An API server with documents, and answers to evictions by name of the pod."""

    def __init__(self, documents: dict[str, Any], answers: dict[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), FakeApi)
        self.documents, self.answers = documents, answers
        self.evictions: list[tuple[str, Any]] = []
        self.tokens: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class FakeApi(BaseHTTPRequestHandler):
    """Answers as an API server does."""

    server: FakeServer

    def do_GET(self) -> None:
        name = PATHS.get(self.path, "")
        self.server.tokens.add(self.headers["Authorization"])
        self._answer(200 if name in self.server.documents else 404, self.server.documents.get(name, {}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.evictions.append((self.path, body))
        status = self.server.answers.get(body["metadata"]["name"], 201)
        message = "" if status == 201 else "Cannot evict pod as it would violate the pod's disruption budget."
        self._answer(status, {"kind": "Status", "message": message})

    def _answer(self, status: int, document: Any) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def api_server(documents: dict[str, Any] = DOCUMENTS, **answers: int) -> Iterator[FakeServer]:
    """Serve documents; `answers` are statuses of evictions, by name of the pod with underscores."""
    server = FakeServer(documents, {name.replace("_", "-"): status for name, status in answers.items()})
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
