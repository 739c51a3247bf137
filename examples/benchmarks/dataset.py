"""How fast a folder of pictures is looked at, again, and what that takes of memory.

    python examples/benchmarks/dataset.py [--pictures 2000] [--entries 10000] [--many 100000]
                                          [--no-loading]

Made pictures, JPEGs of 1 to 12 megapixels. The scan decodes each of them to its end, hashes it and
reads its caption; beside it stands bare Pillow that only decodes, in as many threads, in turns in
one process. A second scan of an unchanged folder, how soon `lorakit dataset` says something, and
the memory of a scan of many against that of few, each in a process of its own. Then the figures of
data_loading.py: what comes between pictures and the steps of a training.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import data_loading
import numpy as np
from PIL import Image

TURNS = 3


def make(folder: Path, count: int) -> list[Path]:
    """JPEGs of 1 to 12 megapixels with captions. What they show is made once for each size."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    kinds = []
    for megapixels in range(1, 13):
        width = int((megapixels * 1e6 * 4 / 3) ** 0.5)
        height = width * 3 // 4
        small = rng.integers(0, 256, (height // 16 + 1, width // 16 + 1, 3), dtype=np.uint8)
        photo = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
        grain = rng.integers(-12, 13, (height, width, 1), dtype=np.int16)
        kinds.append(Image.fromarray((np.asarray(photo) + grain).clip(0, 255).astype(np.uint8)))
    paths = []
    for number in range(count):
        path = folder / f"{number:05d}.jpg"
        paths.append(path)
        if not path.exists():
            image = kinds[number % len(kinds)]
            image.putpixel((number % 500, number // 500), (255, 0, 255))
            image.save(path, quality=88)
            path.with_suffix(".txt").write_text(f"a photo of thing {number}, outdoors, sunny")
            os.utime(path, (1e9, 1e9))  # older than the clock can confuse
    return paths


def tiny(folder: Path, count: int) -> None:
    """Pictures of a few pixels, each another one, with captions."""
    folder.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"{number:06d}.png"
        pixels = noise.integers(0, 256, (8 + number % 7, 8 + number % 9, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path, compress_level=0)
        path.with_suffix(".txt").write_text(f"a photo of thing {number}, outdoors, sunny")
        os.utime(path, (1e9, 1e9))


def cores() -> int:
    return len(os.sched_getaffinity(0))


def decoded(path: Path) -> None:
    with Image.open(path) as image:
        image.load()


def bare(paths: list[Path]) -> float:
    """Seconds to decode all of them and do nothing else."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(cores()) as pool:
        for _ in pool.map(decoded, paths):
            pass
    return time.perf_counter() - begin


def scanned(folder: Path, fresh: bool) -> float:
    """Seconds of a scan."""
    from lorakit.bundle.models import Dataset, Source
    from lorakit.dataset.scan import scan
    from lorakit.families.base_model import usual

    begin = time.perf_counter()
    source = Source(path=str(folder), trigger="ohwx")
    report = scan(Dataset(sources=(source,)), folder, usual("sd1"), fresh=fresh)
    assert report.pictures
    return time.perf_counter() - begin


def alone(*words: str) -> str:
    """What this program prints in a process of its own."""
    command = [sys.executable, __file__, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def peak_mib() -> float:
    """The most memory that this process has held; getrusage also counts what its parent held."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def first_words(folder: Path) -> float:
    """Seconds until `lorakit dataset` has printed anything."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "lorakit", "dataset", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        taken = time.perf_counter() - begin
        child.kill()
    return taken


def row(what: str, figure: str, wanted: str = "") -> None:
    print(f"{what:<46}{figure:>22}   {wanted}", flush=True)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--pictures", type=int, default=2000)
    asked.add_argument("--entries", type=int, default=10_000)
    asked.add_argument("--many", type=int, default=100_000)
    asked.add_argument("--folder", type=Path, help="where pictures are made, and kept")
    asked.add_argument("--no-loading", action="store_true")
    asked.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.measure:  # in a process of its own
        folder, how = given.measure
        taken = scanned(Path(folder), how == "fresh")
        print(taken, peak_mib())
        return
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["LORAKIT_CACHE"] = f"{scratch}/cache"
        folder = given.folder or Path(scratch)
        photos = make(folder / "photos", given.pictures)
        size = sum(p.stat().st_size for p in photos)
        row("pictures of 1 to 12 megapixels", f"{len(photos):,}, {size / 2**30:.1f} GiB")
        row("first words of lorakit dataset", f"{first_words(folder / 'photos'):.2f} s", "0.5 s")
        decoded(photos[0])
        ratios = []
        for _ in range(TURNS):
            plain, scan = bare(photos), scanned(folder / "photos", True)
            ratios.append(plain / scan)
            row("bare decoding, then a full scan", f"{plain:.1f} s, {scan:.1f} s")
        row("rate of a scan in that of bare decoding", f"{statistics.median(ratios):.0%}", "80 %")

        tiny(folder / "entries", given.entries)
        first, _ = map(float, alone("--measure", str(folder / "entries"), "first").split())
        again, _ = map(float, alone("--measure", str(folder / "entries"), "again").split())
        row(
            f"{given.entries:,} small pictures, first and again",
            f"{first:.2f} s, {again:.2f} s",
            "1 s",
        )

        tiny(folder / "few", 100)
        tiny(folder / "many", given.many)
        _, few = map(float, alone("--measure", str(folder / "few"), "first").split())
        _, many = map(float, alone("--measure", str(folder / "many"), "first").split())
        row(f"memory of a scan of 100, of {given.many:,}", f"{few:.0f} MiB, {many:.0f} MiB")
        row("growth", f"{many - few:.0f} MiB", "150 MiB")
        if not given.no_loading:
            for what, figure in data_loading.rows(given.many):
                print(f"{what}: {figure}", flush=True)


if __name__ == "__main__":
    main()
