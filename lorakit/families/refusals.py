"""What an answer of the Hub that is no file means: for a program, and in words for a person."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from lorakit.errors import ExitCode, LorakitError
from lorakit.families import hub_cache

BUSY = frozenset((408, 429, 500, 502, 503, 504))
"""Answers that mean: later."""

WAITS_SECONDS = (0.2, 1, 2, 4, 8)
"""Before each further try, where the Hub names no time."""

TRIES = len(WAITS_SECONDS) + 1
"""How often the Hub is asked for the same thing."""


def status(error: Exception) -> int | None:
    """The number of an HTTP answer; None for an error that is none."""
    found = getattr(getattr(error, "response", None), "status_code", None)
    return found if isinstance(found, int) else None


def _headers(error: Exception) -> Any:
    return getattr(getattr(error, "response", None), "headers", None) or {}


def named_wait(error: Exception) -> float | None:
    """Seconds, by the usual header or by the one that the Hub counts requests with."""
    text = str(_headers(error).get("Retry-After", ""))
    if text.isdecimal():
        return float(text)
    limit = re.search(r"\br=0;\s*t=(\d+)", str(_headers(error).get("RateLimit", "")))
    return float(limit[1]) if limit else None


def offline(model: str, missing: tuple[str, ...]) -> LorakitError:
    """The error where the Hub is switched off."""
    return LorakitError(
        f"The base model {model} is not on this machine{hub_cache.listed(missing)}, and the Hub is"
        " switched off (HF_HUB_OFFLINE).",
        "Unset HF_HUB_OFFLINE, or give a folder or file.",
    )


def told(error: Exception, model: str, revision: str) -> LorakitError:
    """What an error of the Hub's client means for a person."""
    from huggingface_hub import constants
    from huggingface_hub.errors import OfflineModeIsEnabled

    if isinstance(error, OfflineModeIsEnabled):
        return offline(model, ())
    code, page = status(error), f"{constants.ENDPOINT}/{quote(model)}"
    kind, said = _headers(error).get("X-Error-Code", ""), _headers(error).get("X-Error-Message", "")
    known = _has_token()
    if kind == "GatedRepo":
        first = "" if known else ", and give your token in HF_TOKEN or with `hf auth login`."
        return LorakitError(
            f"The base model {model} is gated ({code}): its licence has to be accepted first.",
            f"Accept it at {page}{first}",
        )
    if kind == "EntryNotFound":
        return LorakitError(
            f"The Hub lists a file of {model} that it does not have ({code}).",
            f"Look at {page}/tree/main, and choose another model.",
        )
    if kind == "RevisionNotFound":
        return LorakitError(
            f"The base model {model} has no revision {revision or 'main'} ({code}).",
            f"See {page}/commits/main, or leave base.revision empty for the newest.",
        )
    if code == 401 and "credential" in said.lower():
        return LorakitError(
            f"The Hub does not accept the token that is given (401), for the base model {model}.",
            f"Make a new one at {constants.ENDPOINT}/settings/tokens. {_TOKEN}",
        )
    if code == 401 or kind == "RepoNotFound" or code == 404:
        sent = "with the token that is given" if known else "without a token"
        return LorakitError(
            f"The Hub does not show {model} {sent} ({code}): it is private, gated, or gone (or"
            " misspelt).",
            f"Look at {page}. {_TOKEN if not known else 'The token may be of another account.'}",
        )
    if code == 403:
        whose = "with the token that is given" if known else "without a token"
        return LorakitError(
            f"The Hub forbids {model} {whose} (403){f': {said}' if said else '.'}",
            f"Accept its terms at {page}, and give the token leave to read gated repositories at"
            f" {constants.ENDPOINT}/settings/tokens.",
        )
    if code in BUSY:
        return LorakitError(
            f"The Hub is busy ({code}) and was asked {TRIES} times for {model}.",
            f"Try again later; what has arrived is kept. {_TOKEN if code == 429 else ''}".strip(),
            ExitCode.TRAINING_FAILED,
        )
    why = f"the Hub answers {code}" if code else _reason(error)
    return LorakitError(
        f"{model} could not be downloaded: {why}.",
        "Check the network and try again; what has arrived is kept. Or give a folder or file.",
        ExitCode.TRAINING_FAILED,
    )


def _reason(error: BaseException) -> str:
    """What broke a connection, without addresses: those of large files are signed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__ if "://" in str(error) else str(error) or type(error).__name__


def _has_token() -> bool:
    from huggingface_hub import get_token

    try:
        return get_token() is not None
    except Exception:  # a store that cannot be read, which is another error
        return False


_TOKEN = "A token is read from HF_TOKEN, or from what `hf auth login` keeps."
