"""A survey looks at everything, and a fault in one part hides none in another."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lorakit import survey as looking
from lorakit.bundle.models import Bundle
from lorakit.families.shipped import ASSETS
from lorakit.hardware.facts import Speed
from lorakit.hardware.files import load
from lorakit.hardware.speed import remember
from lorakit.planner.check import check
from lorakit.runs import dryrun
from lorakit.survey import free_bytes, survey

PICO_FOLDER = ASSETS / "pico"

MACHINES = Path(__file__).resolve().parent / "data" / "hardware"


def bundle(**sections: dict[str, Any]) -> Bundle:
    whole: dict[str, Any] = {
        "name": "dog",
        "base": {"model": "base"},
        "dataset": {"sources": [{"path": "dog", "trigger": "ohwx"}], "resolution": 64},
        "train": {"precision": "fp32"},
        "sample": {"prompts": ["ohwx dog"]},
    }
    for section, values in sections.items():
        whole[section] = {**whole.get(section, {}), **values}
    return Bundle.model_validate(whole)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a tiny base, as far as looking at one goes, and three pictures."""
    configs = {
        "model_index.json": {"text_encoder": ["transformers", "CLIPTextModel"]},
        "unet/config.json": {"sample_size": 16, "block_out_channels": [32, 64]},
        "vae/config.json": {"block_out_channels": [16, 32, 64]},
        "text_encoder/config.json": {"max_position_embeddings": 10},
        "scheduler/scheduler_config.json": {"prediction_type": "epsilon"},
        "tokenizer/vocab.json": {
            **{c: n for n, c in enumerate("abcdefghijklmnopqrstuvwxyz")},
            **{f"{c}</w>": n + 26 for n, c in enumerate("abcdefghijklmnopqrstuvwxyz")},
            "<|endoftext|>": 52,
        },
    }
    for name, body in configs.items():
        (tmp_path / "base" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "base" / name).write_text(json.dumps(body))
    (tmp_path / "base/tokenizer/merges.txt").write_text("#version: 0.2\n")
    for name in ("unet/diffusion_pytorch_model", "vae/diffusion_pytorch_model"):
        (tmp_path / f"base/{name}.safetensors").write_bytes(b"x" * 100)
    (tmp_path / "base/text_encoder/model.safetensors").write_bytes(b"x" * 100)
    (tmp_path / "dog").mkdir()
    for n in range(3):
        Image.new("RGB", (64, 64 + n)).save(tmp_path / f"dog/{n}.png")
    return tmp_path


def test_all_is_found(root: Path) -> None:
    facts = survey(bundle(), root, hardware=load(MACHINES / "cpu-only.toml"))
    assert facts.problems == ()
    assert facts.base is not None
    assert facts.base.size_step == 8
    assert facts.report is not None
    assert len(facts.report.pictures) == 3
    assert facts.prompt_tokens == (8,)  # short: as many as letters
    assert facts.disk_free_bytes
    assert facts.runs_folder.endswith("runs")
    assert facts.offline
    assert facts.on_cpu
    assert check(bundle(), facts) == []


def test_this_machine_is_the_one_meant_otherwise(root: Path) -> None:
    assert survey(bundle(), root).hardware.cpu_threads >= 1


def test_faults_of_all_parts_are_shown_at_once(root: Path) -> None:
    (root / "dog" / "2.png").write_bytes(b"")
    wrong = bundle(
        base={"model": "nowhere/at/all"},
        train={"steps": 10, "warmup_steps": 20},
        dataset={"sources": [{"path": "dog"}, {"path": "cat", "trigger": "x"}]},
    )
    facts = survey(wrong, root, hardware=load(MACHINES / "cpu-only.toml"))
    assert facts.base is None
    errors = {p.where for p in check(wrong, facts) if p.severity == "error"}
    assert errors == {
        "base.model",
        "2.png",
        "dataset.sources[0].trigger",
        "dataset.sources[1].path",
        "train.warmup_steps",
    }


@pytest.mark.parametrize("base", [{"model": "base"}, {"model": "gone/one/two"}])
def test_a_resolution_below_one_step_is_said_once(root: Path, base: dict[str, str]) -> None:
    unet = root / "base/unet/config.json"
    unet.write_text(json.dumps({"sample_size": 16, "block_out_channels": [32] * 5}))
    wrong = bundle(base=base, dataset={"resolution": 32})
    facts = survey(wrong, root, hardware=load(MACHINES / "cpu-only.toml"))
    said = [p for p in check(wrong, facts) if p.where == "dataset.resolution"]
    assert [p.severity for p in said if p.severity == "error"] == ["error"]
    assert "64" in said[0].what


def test_a_hub_id_that_is_not_here(root: Path) -> None:
    facts = survey(bundle(base={"model": "nobody/nothing"}), root)
    assert facts.base is not None
    assert facts.base.folder is None
    assert facts.prompt_tokens == (8,)
    errors = [p for p in check(bundle(), facts) if p.severity == "error"]
    assert any("HF_HUB_OFFLINE" in p.what for p in errors)


def test_progress_is_told(root: Path) -> None:
    seen: list[tuple[int, int]] = []
    tell: Callable[[int, int], None] = lambda done, total: seen.append((done, total))  # noqa: E731
    survey(bundle(), root, progress=tell)
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_free_space_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "not" / "yet") == pytest.approx(free_bytes(tmp_path), rel=0.1)


def test_what_it_will_take_is_estimated_with_a_speed_that_was_measured_here(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds() -> float:
        found = survey(bundle(base={"model": "pico"}), root).estimate
        assert found.step_seconds
        assert found.total_seconds
        assert found.total_seconds.low > found.step_seconds.low
        assert found.disk_bytes
        return found.step_seconds.middle

    machine = replace(load(MACHINES / "cpu-only.toml"), probe=None)
    monkeypatch.setattr("lorakit.survey.detect", lambda: machine)
    rough = seconds()
    remember(machine, Speed(tflops={"fp32": 1e-4}, bandwidth_gb_s=0.1, launch_us=5000.0))
    assert seconds() > 50 * rough


def test_a_missing_folder_of_pictures_leaves_what_a_step_takes_known(root: Path) -> None:
    facts = survey(bundle(base={"model": "pico"}, dataset={"sources": [{"path": "gone"}]}), root)
    assert facts.estimate.step_seconds is not None
    assert (facts.estimate.total_seconds is None) == (facts.report is None)


PHASES = '{"phases": [{"name": "training", "parts": [{"name": "activations", "gib": 3.5}]}]}'


@pytest.mark.parametrize(
    ("code", "peak_gib", "words"),
    [
        (f"print('{PHASES}')", 3.92, ""),
        ("raise SystemExit('no such layer')", None, "failed: no such layer So nobody knows"),
    ],
)
def test_a_base_that_the_table_lacks_is_counted(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: str, peak_gib: float | None, words: str
) -> None:
    """pico's sizes in a folder of its own stand for those of a large base."""
    shutil.rmtree(root / "base")
    shutil.copytree(PICO_FOLDER, root / "base")
    monkeypatch.setattr(dryrun, "COMMAND", (sys.executable, "-c", code))
    monkeypatch.setattr(looking, "is_small", lambda *_: False)
    said: list[str] = []
    machine = load(MACHINES / "cpu-only.toml")
    facts = survey(bundle(), root, hardware=machine, dry_run=said.append)
    assert facts.estimate is not None
    assert len(said) == 1
    assert (facts.estimate.peak_gib or 0) == pytest.approx(peak_gib or 0)
    assert (facts.estimate.source == "dry run") == (peak_gib is not None)
    assert [p.severity for p in facts.problems if words and words in p.what] == ["warning"] * bool(
        words
    )


def test_nothing_is_counted_unasked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dryrun, "COMMAND", (sys.executable, "-c", "raise SystemExit(9)"))
    facts = survey(bundle(), root, dry_run=lambda words: pytest.fail(words))
    assert facts.problems == ()
