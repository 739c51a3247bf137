"""Bases from a Hub on loopback, in the processes that a person starts."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hub import COMMIT, Hub, gated, serving

from lorakit.bundle.models import PICO, Bundle
from lorakit.bundle.read import read
from lorakit.bundle.write import write
from lorakit.families.shipped import ASSETS
from lorakit.runs.events import FILE, Doing, Event, Failed, decode
from lorakit.train.download import to_be_cached

MODEL = "someone/pico"
UNET = "unet/diffusion_pytorch_model.safetensors"
TOKEN = "hf_planted0123456789abcdef"


def request(bundle: Bundle, file: Path) -> Path:
    """A bundle that trains one step of a base from the Hub."""
    data = bundle.model_dump(by_alias=True)
    data["base"] = {"model": MODEL}
    data["dataset"]["resolution"] = 64
    data["train"] |= {"steps": 1, "warmup_steps": 0}
    data["sample"]["prompts"] = []
    write(file, Bundle.model_validate(data))
    return file


def environment(hub: Hub, home: Path, **more: str) -> dict[str, str]:
    """The Hub's client reads its environment when it is imported, so processes are started."""
    kept = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    return kept | {"HF_ENDPOINT": hub.address, "HF_HOME": str(home)} | more


def events(run: Path) -> list[Event]:
    found = [decode(line) for line in (run / FILE).read_text().splitlines()]
    return [event for event in found if event]


@pytest.mark.slow
def test_a_base_is_downloaded_and_trained_and_the_token_stays_a_secret(
    bundle: Bundle, tmp_path: Path
) -> None:
    """With bytes as they come, its commit in the lock, and the token in no file and no argv."""
    arguments: set[bytes] = set()

    def look(sent: int) -> None:
        for process in Path("/proc").glob("[0-9]*/cmdline" if sent == 0 else "none"):
            try:
                arguments.add(process.read_bytes())
            except OSError:
                continue

    file, runs = request(bundle, tmp_path / "hub.toml"), tmp_path / "runs"
    with serving(ASSETS / PICO, MODEL, on_bytes=look) as hub:
        needs = "api/models", "/resolve/"
        hub.refuse = lambda path, token: (
            gated(401) if token != TOKEN and any(n in path for n in needs) else None
        )
        env = environment(hub, tmp_path / "home", HF_TOKEN=TOKEN, LORAKIT_CACHE=str(tmp_path / "c"))
        train = [sys.executable, "-m", "lorakit", "--debug", "train", str(file), "--cpu"]
        done = subprocess.run(
            [*train, "--runs", str(runs)], env=env, capture_output=True, text=True, timeout=200
        )
    assert done.returncode == 0, done.stderr
    [run] = runs.iterdir()
    told = events(run)
    downloads = [e for e in told if isinstance(e, Doing) and e.phase == "downloading"]
    total = sum(f.stat().st_size for f in (ASSETS / PICO).rglob("*") if f.is_file())
    assert {(e.unit, e.total) for e in downloads} == {("bytes", total)}
    counts = [e.done for e in downloads if e.done is not None]
    assert counts == sorted(counts)
    assert counts[-1] == total
    lock = read(run / "bundle.toml").lock
    assert lock
    assert lock.base.revision == COMMIT
    assert "downloading" in done.stderr
    authorised = {path.split(":")[0] for _, path, h in hub.asked if h.get("authorization")}
    assert authorised == {"hub"}
    assert any(b"lorakit.train.worker" in line for line in arguments)
    assert not [line for line in arguments if TOKEN.encode() in line]
    files = [f for f in tmp_path.rglob("*") if f.is_file()]
    assert run / FILE in files
    assert [f for f in files if TOKEN.encode() in f.read_bytes()] == []
    assert TOKEN not in done.stdout + done.stderr


def test_a_gated_base_ends_a_run_before_anything_is_loaded(bundle: Bundle, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    request(bundle, run / "bundle.toml")
    code = (
        "import sys; from lorakit.train.worker import main; code = main(sys.argv[1:]);"
        " print(code, 'torch' in sys.modules)"
    )
    with serving(ASSETS / PICO, MODEL) as hub:
        hub.refuse = lambda path, token: gated(403) if "/resolve/" in path else None
        done = subprocess.run(
            [sys.executable, "-c", code, str(run)],
            env=environment(hub, tmp_path / "home", HF_TOKEN=TOKEN),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.stdout == "2 False\n", done.stderr
    [*_, last] = events(run)
    assert isinstance(last, Failed)
    assert "is gated (403)" in last.message
    assert last.hint == f"Accept it at {hub.address}/{MODEL}"


def test_room_is_kept_for_what_training_caches(bundle: Bundle, tmp_path: Path) -> None:
    """Latents of 8 x 8 cells and the longest text, for each of five pictures."""
    at_64 = bundle.dataset.model_copy(update={"resolution": 64})
    wanted = bundle.model_copy(update={"dataset": at_64})
    both = 5 * (8 * 8 * 32 + 77 * 2048 * 4)
    assert to_be_cached(wanted, tmp_path) == both
    neither = wanted.memory.model_copy(update={"cache_latents": False, "cache_text": False})
    assert to_be_cached(wanted.model_copy(update={"memory": neither}), tmp_path) == 0


FETCH = """
import sys
from lorakit.bundle.models import Base
from lorakit.families import download
begun = download.begin(Base(model=sys.argv[1]), print, lambda: False)
print(download.complete(begun, lambda done, total: None, print, lambda: False))
"""


def test_a_killed_download_goes_on_where_it_was(tmp_path: Path) -> None:
    others = (ASSETS / PICO / "vae" / "diffusion_pytorch_model.safetensors").stat().st_size
    killed = threading.Event()

    def hold(sent: int) -> None:
        if sent > others:
            killed.wait(60)

    home = tmp_path / "home"
    unet = hashlib.sha256((ASSETS / PICO / UNET).read_bytes()).hexdigest()
    with serving(ASSETS / PICO, MODEL, on_bytes=hold) as hub:
        env = environment(hub, home)
        with subprocess.Popen([sys.executable, "-c", FETCH, MODEL], env=env) as first:
            while not any(f.stat().st_size for f in home.rglob(f"{unet}.incomplete")):
                assert first.poll() is None
                time.sleep(0.01)
            first.kill()
        killed.set()
        [partial] = home.rglob("*.incomplete")
        kept = partial.stat().st_size
        hub.asked.clear()
        done = subprocess.run(
            [sys.executable, "-c", FETCH, MODEL], env=env, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    assert [r for r in hub.bytes_asked() if r] == [f"bytes={kept}-"]
    folder = Path(done.stdout.strip())
    assert (folder / UNET).read_bytes() == (ASSETS / PICO / UNET).read_bytes()
    assert json.loads((folder / "model_index.json").read_text())
