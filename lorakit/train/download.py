"""Fetches a base model by Hub id, with bytes as they come."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lorakit.bundle.models import Base
from lorakit.errors import LorakitError
from lorakit.families.families import FAMILIES
from lorakit.families.locate import locate
from lorakit.families.pipelines import ENCODERS, agree, family_by
from lorakit.runs.events import Doing, Log


def fetch(base: Base, root: Path, log: Log, stop: Callable[[], bool]) -> None:
    """Download a base that is a Hub id and not in the cache, unless someone asks to stop.

    Weights as safetensors only; the fp16 files only where a part has no others.
    """
    if locate(base, root) is None:
        _download(base, log, stop)


def wanted(files: dict[str, int], parts: tuple[str, ...]) -> dict[str, int]:
    """Those of a repository's files (with sizes) that training needs."""
    chosen = {}
    for name, size in files.items():
        part, _, file = name.partition("/")
        if name == "model_index.json" or (part in parts and file.endswith((".json", ".txt"))):
            chosen[name] = size
    for part in parts:
        weights = {
            n: s
            for n, s in files.items()
            if n.startswith(f"{part}/") and n.endswith(".safetensors") and n.count("/") == 1
        }
        plain = {n: s for n, s in weights.items() if n.split("/")[1].count(".") == 1}
        half = {n: s for n, s in weights.items() if ".fp16" in n}
        chosen.update(plain or half)
    return chosen


def _download(base: Base, log: Log, stop: Callable[[], bool]) -> None:
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
    from tqdm.auto import tqdm

    try:
        info = HfApi().model_info(base.model, revision=base.revision or None, files_metadata=True)
        files = {s.rfilename: s.size or 0 for s in info.siblings or ()}
        chosen = wanted(files, FAMILIES[base.family].parts)
        if "model_index.json" not in chosen:
            raise LorakitError(
                f"{base.model} is not a diffusers repository: it has no model_index.json.",
                "Name a repository in the diffusers layout.",
            )
        total, before = sum(chosen.values()), 0
        log.append(Doing(phase="downloading", done=0, total=total, unit="bytes"))

        class Bar(tqdm):
            """Turns the Hub client's progress into events; draws nothing."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                kwargs.pop("name", None)  # some versions of the client pass it on
                kwargs["disable"] = False
                kwargs["file"] = _Nowhere()
                kwargs["mininterval"] = 0.5
                super().__init__(*args, **kwargs)

            def display(self, *args: Any, **kwargs: Any) -> None:
                done = min(before + int(self.n), total)
                log.append(Doing(phase="downloading", done=done, total=total, unit="bytes"))

        bars: dict[str, Any] = {}  # the client of transformers 4 tells of whole files only
        if "tqdm_class" in inspect.signature(hf_hub_download).parameters:
            bars["tqdm_class"] = Bar
        # The index comes last: it is the sign by which a complete base is found again. Asked for
        # by the bundle's own revision, so that the cache knows what the newest one was.
        for name in sorted(chosen, key=lambda name: (name == "model_index.json", chosen[name])):
            if stop():
                return
            file = hf_hub_download(base.model, name, revision=base.revision or None, **bars)
            if name == "unet/config.json":  # one of the first: before what takes long
                encoders = [part for part in ENCODERS if f"{part}/config.json" in files]
                unet = json.loads(Path(file).read_text(encoding="utf-8"))
                agree(base, family_by(encoders, unet))
            before += chosen[name]
            log.append(Doing(phase="downloading", done=before, total=total, unit="bytes"))
    except OfflineModeIsEnabled as error:
        raise LorakitError(
            f"The base model {base.model} is not on this machine, and the Hub is switched off.",
            "Unset HF_HUB_OFFLINE, or give a folder.",
        ) from error
    except HfHubHTTPError as error:
        raise LorakitError(
            f"The Hub does not hand out {base.model}: {_first_line(error)}",
            "It may be misspelt, private, gated (accept its licence on its page) or gone. A token"
            " is read from HF_TOKEN or `hf auth login`.",
        ) from error
    except LorakitError:
        raise
    except Exception as error:  # the client lets its HTTP library's errors through
        raise LorakitError(
            f"{base.model} could not be downloaded: {_first_line(error)}",
            "Check the network and try again; what has arrived is kept. Or give a folder.",
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class _Nowhere:
    """A stream that goes nowhere."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass
