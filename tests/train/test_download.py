"""The Hub's real client against a Hub on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub import serving

from lorakit.bundle.models import Bundle
from lorakit.bundle.write import write
from lorakit.runs.events import FILE, Doing, Failed, Finished, Started, decode
from lorakit.train.download import wanted

PARTS = ("scheduler", "text_encoder", "tokenizer", "unet", "vae")


def test_only_what_training_needs_is_wanted() -> None:
    files = {
        "model_index.json": 1,
        "README.md": 2,
        "v1-5-pruned.ckpt": 3,
        "v1-5-pruned.safetensors": 4,
        "unet/config.json": 5,
        "unet/diffusion_pytorch_model.safetensors": 6,
        "unet/diffusion_pytorch_model.fp16.safetensors": 7,
        "unet/diffusion_pytorch_model.bin": 8,
        "vae/diffusion_pytorch_model.fp16.safetensors": 9,
        "safety_checker/model.safetensors": 10,
        "tokenizer/merges.txt": 11,
    }
    assert sorted(wanted(files, PARTS).values()) == [1, 5, 6, 9, 11]


def trained(bundle: Bundle, base: str, run: Path, address: str) -> tuple[int, list]:
    """The trainer in a process of its own: the Hub's client reads its address when imported."""
    run.mkdir()
    data = bundle.model_dump(by_alias=True)
    data["base"] = {"model": base}
    data["train"]["steps"] = 1
    data["sample"]["prompts"] = []
    write(run / "bundle.toml", Bundle.model_validate(data))
    home = {"HF_ENDPOINT": address, "HF_HOME": str(run / "hub"), "HF_HUB_DISABLE_XET": "1"}
    env = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"} | home
    worker = [sys.executable, "-m", "lorakit.train.worker", str(run)]
    code = subprocess.run(worker, env=env, capture_output=True, timeout=200).returncode
    return code, [decode(line) for line in (run / FILE).read_text().splitlines()]


@pytest.mark.slow
def test_a_base_is_downloaded_with_bytes_and_trained(
    bundle: Bundle, tiny_base: Path, tmp_path: Path
) -> None:
    with serving(tiny_base, "someone/tiny") as address:
        code, events = trained(bundle, "someone/tiny", tmp_path / "run", address)
    assert code == 0, events[-1]
    downloads = [e for e in events if isinstance(e, Doing) and e.phase == "downloading"]
    assert {e.unit for e in downloads} == {"bytes"}
    done = [e.done for e in downloads]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, downloads[0].total)
    index = json.loads((tiny_base / "model_index.json").read_text())
    assert index["_class_name"] == "StableDiffusionPipeline"
    assert isinstance(events[-1], Finished)
    assert any(isinstance(e, Started) for e in events)


@pytest.mark.slow
def test_another_family_is_noticed_before_the_weights_come(
    bundle: Bundle, bases: dict[str, Path], tmp_path: Path
) -> None:
    with serving(bases["sdxl"], "someone/tiny") as address:
        code, events = trained(bundle, "someone/tiny", tmp_path / "run", address)
    assert code == 2
    assert isinstance(events[-1], Failed)
    assert events[-1].message.endswith("is Stable Diffusion XL (sdxl), and the bundle says sd1.")
    assert 'base.family = "sdxl"' in events[-1].hint
    assert not list((tmp_path / "run" / "hub").rglob("*.safetensors"))


@pytest.mark.slow
def test_a_gated_base_is_one_sentence(bundle: Bundle, tiny_base: Path, tmp_path: Path) -> None:
    with serving(tiny_base, "someone/tiny", status=403) as address:
        code, events = trained(bundle, "someone/tiny", tmp_path / "run", address)
    assert code == 2
    assert isinstance(events[-1], Failed)
    assert "does not hand out someone/tiny" in events[-1].message
    assert "licence" in events[-1].hint
