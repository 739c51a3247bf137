"""How fast pictures come to the steps of a training, and what keeping many of them costs.

    python examples/benchmarks/data_loading.py [--entries 100000] [--steps 60] [--kills 20]

Memory and time of 100,000 cached pictures and captions (random numbers in pico's sizes, and a few
hundred real ones), the first batch of an epoch of as many samples, the share of a training on pico
that waits for data, with a cache and without; and caching that is killed again and again. Each
figure is taken in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PICTURES = 300
"""Real ones, of pico's size."""


def report_of(count: int) -> Any:
    """A report of so many pictures, of which only one was ever there."""
    from lorakit.dataset.scan import scan
    from lorakit.families.base_model import inspect

    with tempfile.TemporaryDirectory() as scratch:
        pictures(Path(scratch), 1)
        wanted = bundle(Path(scratch))
        found = scan(wanted.dataset, Path("/"), inspect(wanted.base, Path("/")))
    [one] = found.pictures

    def other(number: int) -> Any:
        said = f"a robot number {number}"
        name, sha256 = f"{number}.png", f"{number:064x}"
        return replace(one, name=name, sha256=sha256, caption=said, captions=(said,))

    return replace(found, pictures=tuple(map(other, range(count))))


def bundle(folder: Path, settings: tuple[str, ...] = ()) -> Any:
    """A training on pico with the pictures of a folder."""
    from lorakit.bundle.read import parse

    text = (
        'schema = 1\nname = "data"\n[base]\nmodel = "pico"\n'
        f'[dataset]\nresolution = 64\n[[dataset.sources]]\npath = "{folder}"\n'
        "[train]\nsteps = 100000\nbatch_size = 4\n"
    )
    return parse(text, settings)


def held(count: int, root: Path) -> dict[str, float]:
    """Write so many entries of each kind and read a batch: memory, size and seconds."""
    import torch

    from lorakit.cache import shelves
    from lorakit.train import cache
    from lorakit.train.batches import Batches
    from lorakit.train.epochs import Epochs
    from lorakit.train.families.sd1 import FAMILY
    from lorakit.train.material import CachedLatents, CachedTexts, Material

    report, wanted = report_of(count), bundle(root)
    epochs = Epochs(wanted, report)
    before = _peak_mib()
    latents, text = torch.randn(2, 4, 16, 16), torch.randn(77, 64)

    begun = time.perf_counter()
    stores = [cache.Cache(root, kind, "an encoder", "pico") for kind in shelves.KINDS]
    with stores[0] as pictures, stores[1] as texts:
        for picture, view in epochs.views():
            name = cache.picture_name(picture.sha256, view)
            pictures.put(name, {"mean": latents[0], "std": latents[1]})
        for caption in epochs.texts():
            texts.put(cache.text_name(caption), {"hidden": text})
    writing = time.perf_counter() - begun
    for store in stores:
        store.close()

    begun = time.perf_counter()
    pictures, texts = (cache.Cache(root, kind, "an encoder", "pico") for kind in shelves.KINDS)
    indexing = time.perf_counter() - begun
    assert len(pictures) == len(texts) == count

    material = Material(epochs, CachedLatents(pictures, epochs), CachedTexts(texts, epochs))
    begun = time.perf_counter()
    made = Batches(material, wanted, FAMILY.sizes, 1.0, 1000, torch.device("cpu"), torch.float32)
    planning = time.perf_counter() - begun
    firsts = []
    for epoch in range(1, 6):  # the one after each of these begins with nothing of it known
        begun = time.perf_counter()
        made.of(epoch * made.plan.batches_per_epoch + 1)
        firsts.append(time.perf_counter() - begun)
    begun = time.perf_counter()
    for step in range(1, 201):
        made.of(step)
    reading = (time.perf_counter() - begun) / 200
    return {
        "peak_mib": _peak_mib(),
        "grown_mib": _peak_mib() - before,
        "disk_mib": sum(s.size_bytes for s in shelves.shelves(root)) / 2**20,
        "files": sum(s.files for s in shelves.shelves(root)),
        "write_seconds": writing,
        "index_seconds": indexing,
        "plan_ms": planning * 1e3,
        "first_batch_ms": statistics.median(firsts) * 1e3,
        "batch_ms": reading * 1e3,
    }


def encoded(root: Path, folder: Path) -> dict[str, float]:
    """Real pictures through pico's VAE: pictures per second and memory."""
    ready, seconds = prepared(root, folder)
    assert ready is not None
    return {"pictures_per_second": PICTURES / seconds, "peak_mib": _peak_mib()}


def prepared(root: Path, folder: Path, log_to: Path | None = None) -> tuple[Any, float]:
    """Encode what a folder holds; (what there is, seconds)."""
    import torch

    from lorakit.runs.events import Log
    from lorakit.train import prepare
    from lorakit.train.families import family_of

    os.environ["LORAKIT_CACHE"] = str(root)
    wanted = bundle(folder)
    base, report = prepare.look(wanted, Path("/"))
    log = Log(log_to or root / "events.jsonl")
    begun = time.perf_counter()
    family, cpu = family_of(wanted), torch.device("cpu")
    ready = prepare.encode(wanted, base, report, family, cpu, log, lambda: False)
    return ready, time.perf_counter() - begun


def waited(root: Path, folder: Path, steps: int, live: bool) -> dict[str, float]:
    """The share of a training's time that waits for data, as its events tell."""
    from lorakit.bundle.write import write
    from lorakit.runs.events import FILE, Stepped, Tail

    settings = [f"train.steps={steps}", "save.every=0", "sample.every=0"]
    if live:
        settings += ["memory.cache_latents=false", "memory.cache_text=false"]
    run = root / ("live" if live else "cached")
    run.mkdir()
    write(run / "bundle.toml", bundle(folder, tuple(settings)))
    environment = {**os.environ, "LORAKIT_CACHE": str(root)}
    command = [sys.executable, "-m", "lorakit.train.worker", str(run)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    told = [e for e in Tail(run / FILE).read() if isinstance(e, Stepped)]
    seconds = sum(e.seconds for e in told)
    return {
        "wait_percent": 100 * sum(e.wait_seconds for e in told) / seconds,
        "step_ms": 1e3 * seconds / steps,
    }


def killed(kills: int, count: int = PICTURES, seed: int = 0) -> dict[str, Any]:
    """Caching of so many pictures, killed at random moments and gone on with.

    After each kill all that can be read must be what an undisturbed caching has written.
    """
    from lorakit.cache import shards, shelves

    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        root, folder = Path(scratch), Path(scratch) / "pictures"
        pictures(folder, count)
        os.waitpid(_caching(root / "whole", folder), 0)
        expected = contents(root / "whole")
        progress, wrong = [0], 0
        for _ in range(kills):
            aim = progress[-1] + draw.randint(1, 4 * count // (kills + 1))
            child = _caching(root / "killed", folder)
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                found = [shards.files(shelf) for shelf in (root / "killed").glob("*/*")]
                if sum(map(len, found)) >= aim:
                    time.sleep(draw.uniform(0, 0.01))
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    break
                time.sleep(0.001)
            now = contents(root / "killed")
            wrong += sum(expected.get(name) != data for name, data in now.items())
            wrong += sum(s.damaged for s in shelves.shelves(root / "killed"))
            progress.append(len(now))
        os.waitpid(_caching(root / "killed", folder), 0)
        same = contents(root / "killed") == expected
    return {"entries": len(expected), "after_each": progress[1:], "wrong": wrong, "same": same}


def _caching(root: Path, folder: Path) -> int:
    """The number of a process that fills a cache; a fork, for loading torch takes seconds."""
    from lorakit.cache import shards
    from lorakit.train import prepare  # noqa: F401  before the fork, not after each

    child = os.fork()
    if not child:
        code = 1
        try:
            shards.MAX_SECONDS = 0.0  # pico is too fast for what usually waits a few seconds
            root.mkdir(exist_ok=True)
            prepared(root, folder)
            code = 0
        finally:
            os._exit(code)
    return child


def contents(root: Path) -> dict[bytes, dict[str, bytes]]:
    """Every entry of a cache, to its bytes."""
    from lorakit.cache.shards import Index

    found = {}
    for kind in ("latents", "text"):
        for folder in sorted((root / kind).glob("*")):
            index = Index(folder)
            for name in index:
                found[name] = {key: bytes(part.data) for key, part in index.read(name).items()}
            index.close()
    return found


def pictures(folder: Path, count: int) -> None:
    """Small pictures, no two alike, with captions."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        shade = (number % 256, number // 256 * 40, 90)
        Image.new("RGB", (64, 64), shade).save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text(f"shade number {number}")


def start(what: str, *given: object) -> subprocess.Popen[str]:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--only", what, *map(str, given)]
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def run(what: str, *given: object) -> dict[str, Any]:
    """Its answer."""
    child = start(what, *given)
    answer, _ = child.communicate()
    if child.returncode:
        raise SystemExit(f"{what} failed")
    found: dict[str, Any] = json.loads(answer.splitlines()[-1])
    return found


def only(what: str, given: list[str]) -> dict[str, Any]:
    """What a process of `start` does."""
    if what == "held":
        return held(int(given[0]), Path(given[1]))
    if what == "encoded":
        return encoded(Path(given[0]), Path(given[1]))
    if what == "killed":
        return killed(int(given[0]))
    return waited(Path(given[0]), Path(given[1]), int(given[2]), given[3] == "live")


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rows(entries: int = 100_000, steps: int = 60, kills: int = 20) -> Iterator[tuple[str, str]]:
    """(what was measured, the figure), as soon as each is known."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        few = run("held", 100, root / "few")
        many = run("held", entries, root / "many")
        yield (
            f"memory of caching, 100 -> {entries:,} entries of each kind",
            f"{few['grown_mib']:.0f} -> {many['grown_mib']:.0f} MiB",
        )
        yield (
            "on the disk",
            f"{many['disk_mib']:,.0f} MiB in {many['files']:.0f} files, "
            f"written in {many['write_seconds']:.1f} s",
        )
        yield "both indices read", f"{many['index_seconds']:.2f} s"
        yield "samples put in order", f"{many['plan_ms']:.0f} ms"
        yield "first batch of an epoch", f"{many['first_batch_ms']:.1f} ms"
        yield "any other batch", f"{many['batch_ms']:.2f} ms"
        pictures(root / "pictures", PICTURES)
        real = run("encoded", root, root / "pictures")
        yield (
            f"{PICTURES} real pictures encoded",
            f"{real['pictures_per_second']:.0f} a second, process of {real['peak_mib']:.0f} MiB",
        )
        for how in ("cached", "live"):
            found = run("waited", root, root / "pictures", steps, how)
            yield (
                f"data wait of a training on pico, {how}",
                f"{found['wait_percent']:.2f} % of {found['step_ms']:.0f} ms a step",
            )
    if kills:
        found = run("killed", kills)
        yield (
            f"caching killed {kills} times",
            f"{found['wrong']} wrong entries, the same in the end: {found['same']}, "
            f"there after each kill: {found['after_each']} of {found['entries']}",
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        print(json.dumps(only(args.only[0], args.only[1:])))
        return 0
    for what, figure in rows(args.entries, args.steps, args.kills):
        print(f"{what:<66} {figure}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
