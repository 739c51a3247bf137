"""Asks the Hub: whether it is there, what a repository holds, and a file from somewhere on."""

from __future__ import annotations

import re
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from lorakit.errors import ExitCode, LorakitError
from lorakit.families import hub_cache
from lorakit.families.refusals import BUSY, WAITS_SECONDS, named_wait, offline, status, told

T = TypeVar("T")
Say = Callable[[str], None]
Stop = Callable[[], bool]

REACH_SECONDS = 3.0
"""How long the Hub's host may take to accept a connection."""

LONGEST_WAIT_SECONDS = 60
"""The most that is waited where the Hub does name one."""

CHUNK_BYTES = 65536


class Stopped(Exception):
    """Someone asked to stop while something was waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of a repository."""

    name: str
    """Relative to the repository, with `/`."""
    size_bytes: int
    blob: str
    """What the Hub's cache calls its content: a sha256 for large files, else git's name."""

    @property
    def sha256(self) -> str:
        """Of its content; empty where the Hub does not say."""
        return self.blob if len(self.blob) == 64 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a repository holds at one commit."""

    model: str
    commit: str
    files: tuple[File, ...]


def ask(model: str, revision: str, missing: tuple[str, ...], say: Say, stop: Stop) -> Listing:
    """What a repository holds at a revision, or at its newest commit.

    Raises LorakitError within seconds where there is no network, with the files that are `missing`,
    and where the Hub refuses; Stopped where someone asked to stop.
    """
    if hub_cache.is_offline():
        raise offline(model, missing)
    from huggingface_hub import HfApi, constants

    if why := unreachable(constants.ENDPOINT):
        raise LorakitError(
            f"The base model {model} is not on this machine{hub_cache.listed(missing)}, and"
            f" {constants.ENDPOINT} cannot be reached: {why}.",
            "Check the network, or give a folder or file. A proxy is taken from HTTPS_PROXY.",
            ExitCode.TRAINING_FAILED,
        )

    def asked() -> Any:
        seconds = constants.HF_HUB_DOWNLOAD_TIMEOUT
        return HfApi().model_info(
            model, revision=revision or None, files_metadata=True, timeout=seconds
        )

    try:
        info = patiently(asked, say, stop)
    except (LorakitError, Stopped):
        raise
    except Exception as error:  # the client lets its HTTP library's errors through
        raise told(error, model, revision) from error
    found = []
    for sibling in info.siblings or ():
        blob = (sibling.lfs.sha256 if sibling.lfs else sibling.blob_id) or ""
        if blob.isalnum() and ".." not in sibling.rfilename.split("/"):
            found.append(File(name=sibling.rfilename, size_bytes=sibling.size or 0, blob=blob))
    if not re.fullmatch("[0-9a-f]{40,64}", info.sha or ""):
        raise LorakitError(
            f"{constants.ENDPOINT} does not say at which commit {model} is.",
            "Let HF_ENDPOINT name a whole Hub, or unset it.",
        )
    return Listing(model=model, commit=info.sha, files=tuple(found))


def unreachable(endpoint: str, seconds: float = REACH_SECONDS) -> str:
    """Why a host does not take connections; empty where it does, or where a proxy stands between.

    Names are looked up in a thread, which is left behind where that takes longer.
    """
    url = urlsplit(endpoint)
    host, proxies = url.hostname or "", urllib.request.getproxies()
    if not urllib.request.proxy_bypass(host) and {url.scheme, "all"} & set(proxies):
        return ""
    answers: list[str] = []

    def connect() -> None:
        try:
            port = url.port or (80 if url.scheme == "http" else 443)
            socket.create_connection((host, port), timeout=seconds).close()
            answers.append("")
        except OSError as error:
            answers.append(error.strerror or str(error))

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds + 0.5)
    return answers[0] if answers else f"no answer within {seconds:.0f} s"


@contextmanager
def opened(listing: Listing, file: File, start: int) -> Iterator[tuple[int, Iterator[bytes]]]:
    """(where in the file the bytes begin, the bytes) of one file from `start` on.

    The token goes to the Hub alone: a redirection to another host loses it. Raises the errors of
    the client and its HTTP library.
    """
    from huggingface_hub import constants, get_session
    from huggingface_hub.utils import (  # type: ignore[attr-defined]
        build_hf_headers,
        hf_raise_for_status,
    )

    path = quote(f"{listing.model}/resolve/{listing.commit}/{file.name}")
    url = f"{constants.ENDPOINT}/{path}"
    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    session: Any = get_session()
    given = {"headers": headers, "timeout": constants.HF_HUB_DOWNLOAD_TIMEOUT}
    with_httpx = callable(session.stream)  # the client of transformers 4 has requests
    asked = (
        session.stream("GET", url, follow_redirects=True, **given)
        if with_httpx
        else session.get(url, stream=True, **given)
    )
    with asked as response:
        hf_raise_for_status(response)
        parts = response.iter_raw() if with_httpx else response.iter_content(CHUNK_BYTES)
        yield (start if response.status_code == 206 else 0), parts


def patiently(ask: Callable[[], T], say: Say, stop: Stop) -> T:
    """What `ask` returns, asked again where the Hub is busy; a bounded number of times."""
    for wait in WAITS_SECONDS:
        try:
            return ask()
        except Exception as error:
            if status(error) not in BUSY:
                raise
            pause(error, wait, say, stop)
    return ask()


def pause(error: Exception, seconds: float, say: Say, stop: Stop) -> None:
    """Wait as long as the Hub wants, or else some seconds. Raises Stopped."""
    named = named_wait(error)
    wait = seconds if named is None else min(named, LONGEST_WAIT_SECONDS)
    if status(error):
        say(f"the Hub is busy ({status(error)}): asked again in {wait:.0f} s")
    sleep(wait, stop)


def sleep(seconds: float, stop: Stop) -> None:
    """Wait. Raises Stopped as soon as someone asks to stop."""
    end = time.monotonic() + seconds
    while True:
        if stop():
            raise Stopped
        if (left := end - time.monotonic()) <= 0:
            return
        time.sleep(min(left, 0.2))
