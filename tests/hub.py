"""A Hub on loopback that serves repositories from folders, as far as its client asks.

It answers as the Hub does: the API names every file with its size and its blob; large files come
from a second host (another port), to which a redirection leads that knows nothing of tokens.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Answer:
    """What is said instead of what was asked for."""

    code: int
    headers: dict[str, str] = field(default_factory=dict)


def gated(code: int) -> Answer:
    said = "Access to model is restricted. You must have access to it and be authenticated."
    return Answer(code, {"X-Error-Code": "GatedRepo", "X-Error-Message": said})


@dataclass
class Hub:
    """What is served, how, and what was asked."""

    folder: Path
    model: str
    commit: str = COMMIT
    branch: str = "main"
    refuse: Callable[[str, str], Answer | None] = lambda path, token: None
    """For a path and a token, what is said instead."""
    cut_after: int | None = None
    """Bytes of a large file after which the connection is closed."""
    spoil: bool = False
    """Whether the first byte of a large file is another one."""
    ranges: bool = True
    on_bytes: Callable[[int], None] = lambda sent: None
    """Called before each part of a large file, with the bytes sent in this answer."""
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, host and path, headers of each request."""
    address: str = ""
    store: str = ""

    @property
    def files(self) -> dict[str, Path]:
        return {
            str(f.relative_to(self.folder)): f
            for f in sorted(self.folder.rglob("*"))
            if f.is_file()
        }

    def paths(self, start: str = "") -> list[str]:
        """Paths that were asked for."""
        return [path for _, path, _ in self.asked if path.startswith(start)]

    def bytes_asked(self) -> list[str]:
        """Ranges that large files were asked for by."""
        return [h.get("range", "") for _, path, h in self.asked if path.startswith("store:")]


def _is_large(name: str) -> bool:
    return name.endswith((".safetensors", ".bin", ".ckpt"))


def _blob(name: str, body: bytes) -> str:
    if _is_large(name):
        return hashlib.sha256(body).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits for an acknowledgement
    hub: Hub
    host = "hub"

    def log_message(self, *args: Any) -> None:
        pass

    def answer(self, code: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        path = unquote(self.path.split("?")[0])
        headers = {k.lower(): v for k, v in self.headers.items()}
        self.hub.asked.append((self.command, f"{self.host}:{path}", headers))
        token = headers.get("authorization", "").removeprefix("Bearer ")
        refused = self.hub.refuse(f"{self.host}:{path}", token)
        if refused:
            body = json.dumps({"error": refused.headers.get("X-Error-Message", "")}).encode()
            self.answer(refused.code, refused.headers, body)
        else:
            self.serve(path)

    do_HEAD = do_GET

    def serve(self, path: str) -> None:
        hub = self.hub
        if path.startswith("/api/models/"):
            model, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            if model != hub.model:
                self.answer(401, {"X-Error-Message": "Invalid username or password."}, b"{}")
            elif revision not in ("", hub.branch, hub.commit):
                self.answer(404, {"X-Error-Code": "RevisionNotFound"}, b"{}")
            else:
                self.answer(200, {"Content-Type": "application/json"}, self.info())
            return
        revision, _, name = path.removeprefix(f"/{hub.model}/resolve/").partition("/")
        if revision not in (hub.branch, hub.commit) or name not in hub.files:
            self.answer(404, {"X-Error-Code": "EntryNotFound"})
            return
        body = hub.files[name].read_bytes()
        told = {"X-Repo-Commit": hub.commit, "ETag": f'"{_blob(name, body)}"'}
        if _is_large(name):
            told |= {"X-Linked-Size": str(len(body)), "X-Linked-Etag": told.pop("ETag")}
            told["Location"] = f"{hub.store}/{name}?Signature=secret"
            self.answer(302, told)
        else:
            self.answer(200, told, body)

    def info(self) -> bytes:
        siblings = []
        for name, file in self.hub.files.items():
            body = file.read_bytes()
            entry: dict[str, Any] = {"rfilename": name, "size": len(body), "blobId": "0" * 40}
            if _is_large(name):
                entry["lfs"] = {
                    "sha256": _blob(name, body), "size": len(body), "pointerSize": 134,
                }  # fmt: skip
            else:
                entry["blobId"] = _blob(name, body)
            siblings.append(entry)
        return json.dumps(
            {"id": self.hub.model, "sha": self.hub.commit, "siblings": siblings}
        ).encode()


class _Store(_Handler):
    """The host of large files."""

    host = "store"

    def serve(self, path: str) -> None:
        hub = self.hub
        body = hub.files[path[1:]].read_bytes()
        if hub.spoil:
            body = bytes([body[0] ^ 1]) + body[1:]
        start, told = 0, {"ETag": '"stored"', "Accept-Ranges": "bytes"}
        asked = self.headers.get("Range", "")
        if asked and hub.ranges:
            start = int(asked.removeprefix("bytes=").split("-")[0])
            told["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        self.send_response(206 if start else 200)
        told["Content-Length"] = str(len(body) - start)
        for name, value in told.items():
            self.send_header(name, value)
        self.end_headers()
        end = len(body) if hub.cut_after is None else min(len(body), start + hub.cut_after)
        step = 65536 if hub.cut_after is None else max(1, min(65536, hub.cut_after))
        for at in range(start, end, step):
            hub.on_bytes(at - start)
            try:
                self.wfile.write(body[at : min(end, at + step)])
            except OSError:
                break
        if end < len(body):
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True


@contextmanager
def serving(folder: Path, model: str, **more: Any) -> Iterator[Hub]:
    """A Hub that hands out the files of `folder` as a repository."""
    hub = Hub(folder, model, **more)
    servers = []
    for handler in (_Handler, _Store):
        made = type(handler.__name__, (handler,), {"hub": hub})
        server = ThreadingHTTPServer(("127.0.0.1", 0), made)
        server.handle_error = lambda *args: None  # type: ignore[method-assign]  # who has gone
        server.daemon_threads = True
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
    hub.address, hub.store = (f"http://127.0.0.1:{s.server_port}" for s in servers)
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
