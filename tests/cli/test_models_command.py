"""`lorakit models`: what is here, and fetching a base from a Hub on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hub import COMMIT, Hub, gated, serving
from huggingface_hub import constants
from single_files import small_shapes, write_header
from terminal import Terminal

from lorakit.bundle.models import PICO
from lorakit.families.shipped import ASSETS
from lorakit.interop import places

Command = Callable[..., "subprocess.CompletedProcess[str]"]
MODEL = "someone/pico"


@pytest.fixture
def home(clean_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(places, "ROOTS", ())
    folder = clean_home / "ComfyUI" / "models" / "checkpoints"
    folder.mkdir(parents=True)
    write_header(folder / "some \x1b[31mmodel.safetensors", {**small_shapes(), "v_pred": (0,)})
    (folder / "pointer.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    return clean_home


def test_the_list_reads_in_80_columns(lorakit: Command, home: Path) -> None:
    done = lorakit("models")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "lorakit",
        "  sd1     4.0 MiB  predicts noise     pico",
        "        by model_index.json and unet/config.json",
        "",
        "ComfyUI: ~/ComfyUI/models/checkpoints",
        r"  sd1     4.9 MiB  predicts v         some \x1b[31mmodel.safetensors",
        "        by captions 48 wide, convolutional projections, cond_stage_model.transformer",
        "",
        "Not to be trained on",
        "  ~/ComfyUI/models/checkpoints/pointer.safetensors",
        "      pointer.safetensors is a Git LFS pointer of 43 bytes, not the model itself.",
        "      Run `git lfs pull` in its folder, or download the file itself.",
    ]
    assert done.stderr == ""


def test_the_list_as_json(lorakit: Command, home: Path) -> None:
    told = json.loads(lorakit("models", "--json").stdout)
    assert [(m["where"], m["family"], m["prediction"], m["usable"]) for m in told] == [
        ("lorakit", "sd1", "epsilon", True),
        ("ComfyUI", None, None, False),
        ("ComfyUI", "sd1", "v_prediction", True),
    ]
    assert told[1]["fix"].startswith("Run `git lfs pull`")


def test_with_pico_alone_the_way_to_others_is_told(
    lorakit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "ROOTS", ())
    done = lorakit("models")
    assert "lorakit models get owner/name" in done.stderr
    assert done.stdout.startswith("lorakit\n  sd1 ")


def environment(hub: Hub, tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HF_HUB_OFFLINE": "",
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(tmp_path / "home"),
    }


def test_a_base_is_fetched_and_its_folder_is_the_result(
    lorakit: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    get = [sys.executable, "-m", "lorakit", "models", "get", MODEL]
    with serving(ASSETS / PICO, MODEL) as hub:
        env = environment(hub, tmp_path)
        done = subprocess.run(get, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.name == COMMIT
    assert (folder / "unet" / "config.json").is_file()
    last = done.stderr.splitlines()[-1]
    assert last.startswith("downloading  4.1 MiB of 4.1 MiB  ")
    assert "MiB/s" in last
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    again = lorakit("models", "get", MODEL)
    assert (again.returncode, again.stdout, again.stderr) == (0, done.stdout, "")


def test_what_is_refused_is_an_exit_code_and_two_lines(
    lorakit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(ASSETS / PICO, MODEL) as hub:
        hub.refuse = lambda path, token: gated(401) if "/resolve/" in path else None
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.delenv("HF_HUB_OFFLINE")
        done = lorakit("models", "get", MODEL)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"lorakit: error: The base model {MODEL} is gated (401): its licence has to be accepted"
        " first.",
        f"  Accept it at {hub.address}/{MODEL}, and give your token in HF_TOKEN or with"
        " `hf auth login`.",
    ]


def test_one_file_is_fetched_and_looked_at(
    lorakit: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_header(tmp_path / "model.safetensors", small_shapes())
    write_header(tmp_path / "lora.safetensors", {"lora_unet_x.lora_down.weight": (4, 320)})
    with serving(tmp_path, MODEL) as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.delenv("HF_HUB_OFFLINE")
        done = lorakit("models", "get", f"{MODEL}/model.safetensors")
        other = lorakit("models", "get", f"{MODEL}/lora.safetensors")
    file = Path(done.stdout.strip())
    assert file.read_bytes() == (tmp_path / "model.safetensors").read_bytes()
    listed = json.loads(lorakit("models", "--json").stdout)
    assert (str(file), "Hub cache", True) in [(m["base"], m["where"], m["usable"]) for m in listed]
    assert (other.returncode, other.stdout) == (5, "")
    assert "lora.safetensors is a LoRA" in other.stderr


def test_check_asks_nobody_for_a_base_that_is_not_here(
    lorakit: Command, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline it says which files are missing."""
    setting = ("--set", f"base.model={MODEL}", "--set", "base.revision=v1")
    with serving(ASSETS / PICO, MODEL) as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        offline = lorakit("check", bundle, *setting)
        monkeypatch.delenv("HF_HUB_OFFLINE")
        lorakit("check", bundle, *setting)
    assert hub.asked == []
    assert f"The base {MODEL} is not on this machine (missing: vae/" in offline.stderr
    assert offline.returncode == 2


def test_what_is_no_hub_id_is_said(lorakit: Command) -> None:
    done = lorakit("models", "get", "model.safetensors")
    assert done.returncode == 2
    assert "model.safetensors is no Hub id." in done.stderr


@pytest.mark.slow
def test_somebody_who_watches_sees_one_line_change(
    terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    with serving(ASSETS / PICO, MODEL) as hub:
        shown = terminal("models", "get", MODEL, **environment(hub, tmp_path))
        assert shown.end() == 0
    assert shown.text.count("downloading  ") == 1
    assert "4.1 MiB of 4.1 MiB" in shown.text


def test_offline_ends_at_once_and_names_the_files(lorakit: Command) -> None:
    there = ASSETS / PICO
    cache = Path(constants.HF_HUB_CACHE) / "models--someone--pico"
    shutil.copytree(there, cache / "snapshots" / COMMIT)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(COMMIT)
    (cache / "snapshots" / COMMIT / "vae" / "config.json").unlink()
    done = lorakit("models", "get", MODEL)
    assert done.returncode == 2
    assert "(missing: vae/config.json)" in done.stderr
    assert "HF_HUB_OFFLINE" in done.stderr
