"""The wheel holds what the checkout holds: presets, the demo, pico."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_wheel_installs_and_brings_its_data(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT]
    subprocess.run(build, check=True, capture_output=True, cwd=tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", site, wheel]
    subprocess.run(pip, check=True, capture_output=True)

    for shipped in (ROOT / "presets").iterdir():
        assert (site / "lorakit/_presets" / shipped.name).read_bytes() == shipped.read_bytes()
    assert len(list((site / "lorakit/_examples/robots/train").glob("*.png"))) == 12
    pico = sum(f.stat().st_size for f in (site / "lorakit/assets/pico").rglob("*") if f.is_file())
    assert 1_000_000 < pico <= 8 * 2**20
    for name in ("merges.txt.gz", "LICENSE"):
        shipped = Path("lorakit/assets/clip", name)
        assert (site / shipped).read_bytes() == (ROOT / shipped).read_bytes()

    for shipped in (ROOT / "lorakit/assets/page").iterdir():
        assert (site / "lorakit/assets/page" / shipped.name).read_bytes() == shipped.read_bytes()

    env = {**os.environ, "PYTHONPATH": str(site)}
    for command, expected in (
        (["presets"], "pico-cpu"),
        (["check", str(site / "lorakit/_examples/robots.toml")], ""),
        (["--version"], "lorakit"),
    ):
        ran = subprocess.run(
            [sys.executable, "-m", "lorakit", *command],
            env=env, cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        assert expected in ran.stdout
