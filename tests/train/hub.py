"""A Hub on loopback that serves one repository from a folder, as far as its client asks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def serving(folder: Path, repository: str, status: int = 200) -> Iterator[str]:
    """The address of a server that hands out the files of `folder`, or answers with `status`."""
    files = {str(f.relative_to(folder)): f for f in sorted(folder.rglob("*")) if f.is_file()}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def answer(self, body: bytes, headers: dict[str, str], code: int = 200) -> None:
            self.send_response(code)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_GET(self) -> None:
            if status != 200:
                headers = {"X-Error-Code": "GatedRepo", "X-Error-Message": "accept the licence"}
                self.answer(b"{}", headers, status)
                return
            path = self.path.split("?")[0]
            if path.startswith(f"/api/models/{repository}"):
                siblings = [{"rfilename": n, "size": f.stat().st_size} for n, f in files.items()]
                info = {"id": repository, "sha": COMMIT, "siblings": siblings}
                self.answer(json.dumps(info).encode(), {"Content-Type": "application/json"})
                return
            name = path.removeprefix(f"/{repository}/resolve/").partition("/")[2]
            if name not in files:
                self.answer(b"", {"X-Error-Code": "EntryNotFound"}, 404)
                return
            body = files[name].read_bytes()
            etag = hashlib.sha256(body).hexdigest()
            self.answer(body, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT})

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
