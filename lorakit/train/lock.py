"""`python -m lorakit.train.lock BUNDLE`: what a training of this bundle would use, as JSON.

With `--anew` every file is read, also where what it holds is known from another time.
The trainer writes the same into its run's bundle: once it starts, and with the result once it is
done.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import torch

from lorakit import __version__
from lorakit.bundle.diff import lines, of_locks, settings_digest
from lorakit.bundle.lock import (
    Lock,
    LockedBase,
    LockedDataset,
    LockedHardware,
    LockedPicture,
    Result,
)
from lorakit.bundle.models import Bundle
from lorakit.bundle.write import write_lock
from lorakit.dataset.report import DatasetReport
from lorakit.errors import ExitCode, LorakitError
from lorakit.families.base_model import BaseFacts, revision
from lorakit.families.digests import digest
from lorakit.families.families import FAMILIES
from lorakit.runs.events import Log, Noted
from lorakit.train import attention

LIBRARIES = ("diffusers", "transformers", "peft", "accelerate", "safetensors")

START = 16
"""Characters kept of a sha256 where there is one for each picture."""


def present(
    bundle: Bundle,
    base: BaseFacts,
    report: DatasetReport,
    device: torch.device,
    run: str = "",
    anew: bool = False,
) -> Lock:
    """What a training of this bundle uses here and now; `run` is the name of the run.

    `anew`: no digest of the base is taken from the cache.
    """
    bytes_follow = device.type == "cpu"
    parts = FAMILIES[bundle.base.family].parts
    libraries = {name: version(name) for name in LIBRARIES}
    return Lock(
        lorakit=__version__,
        run=_readable(run),
        settings=settings_digest(bundle),
        threads=torch.get_num_threads(),
        attention=bundle.memory.attention,
        kernel=attention.kernel(bundle, base, device),
        determinism="bytes" if bytes_follow else "statistics",
        why=(
            "on a CPU the same versions and threads give the same bytes"
            if bytes_follow
            else "a GPU adds up in an order that may change from run to run"
        ),
        versions={
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            **libraries,
        },
        dataset=LockedDataset(digest=report.digest, pictures=_pictures(bundle, report)),
        base=LockedBase(
            digest=digest(base.folder, *parts, anew=anew) if base.folder else "",
            revision=revision(base),
        ),
        hardware=_hardware(device),
    )


def begin(
    bundle: Bundle,
    base: BaseFacts,
    report: DatasetReport,
    device: torch.device,
    run: Path,
    log: Log,
    after: int,
) -> Lock:
    """Lock the bundle of a run that starts, or goes on after step `after`, and return the lock.

    Where the run was begun under other conditions, it says which, and promises no bytes any more.
    """
    locked = present(bundle, base, report, device, run.name)
    before = bundle.lock
    if before is not None and after:
        for line in before.changed:
            log.append(Noted(text=f"not as a straight run: {line}"))
        others = lines(of_locks(before, locked))
        changed = (*before.changed, *(f"{line}, after step {after}" for line in others))
        locked = locked.model_copy(update={"changed": changed})
        for line in others:
            log.append(Noted(text=f"not as this run began: {line}", level="warning"))
        if others or before.determinism != locked.determinism:
            why = "the run was resumed under other conditions"
            locked = locked.model_copy(update={"determinism": "statistics", "why": why})
    _write(run, locked, log)
    return locked


def finish(locked: Lock, digest: str, step: int, run: Path, log: Log) -> None:
    """Add what came out of a run that is done."""
    _write(run, locked.model_copy(update={"result": Result(digest=digest, step=step)}), log)


def _write(run: Path, locked: Lock, log: Log) -> None:
    try:
        write_lock(run / "bundle.toml", locked)
    except LorakitError as error:  # a full disk here must not end a training
        log.append(Noted(text=f"the lock was not written: {error.message}", level="warning"))


def _pictures(bundle: Bundle, report: DatasetReport) -> tuple[str, ...]:
    """A line for each picture, in the order of the report, which is that of their names."""
    several = len(bundle.dataset.sources) > 1
    found = []
    for picture in report.pictures:
        name = f"{picture.source}/{picture.name}" if several else picture.name
        caption = hashlib.sha256(picture.words.encode()).hexdigest()
        line = LockedPicture(_readable(name), picture.sha256[:START], caption[:START])
        found.append(str(line))
    return tuple(found)


def _readable(name: str) -> str:
    """A name of a file, which may be any bytes, as text that TOML can hold."""
    return name.encode("utf-8", "backslashreplace").decode()


def _hardware(device: torch.device) -> LockedHardware:
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        return LockedHardware(
            device=torch.cuda.get_device_name(device),
            cpu=_cpu_name(),
            capability=f"{major}.{minor}",
            driver=_driver(),
            cuda=str(torch.version.cuda or torch.version.hip or ""),
        )
    return LockedHardware(
        device=device.type.upper(),
        cpu=_cpu_name(),
        capability=torch.backends.cpu.get_cpu_capability() if device.type == "cpu" else "",
    )


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n"):
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor()


def _driver() -> str:
    import pynvml

    try:
        pynvml.nvmlInit()
        found = pynvml.nvmlSystemGetDriverVersion()
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return ""
    return found if isinstance(found, str) else found.decode()


def main(argv: list[str]) -> int:
    """Print the lock of a bundle; returns the exit code."""
    from lorakit.bundle.read import read
    from lorakit.dataset.scan import scan
    from lorakit.families.base_model import inspect
    from lorakit.train import device

    path, anew = Path(argv[0]).resolve(), "--anew" in argv[1:]
    try:
        bundle = read(path)
        base = inspect(bundle.base, path.parent)
        report = scan(bundle.dataset, path.parent, base, fresh=anew)
        where = device.settle(bundle.lock)
        print(present(bundle, base, report, where, anew=anew).model_dump_json())
    except LorakitError as error:
        print(f"lorakit: error: {error.message}\n  {error.hint}", file=sys.stderr)
        return int(error.code)
    return int(ExitCode.OK)


if __name__ == "__main__":
    from lorakit.train.worker import settle_environment

    settle_environment()
    sys.exit(main(sys.argv[1:]))
