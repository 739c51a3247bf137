"""What the headers of adapter files say, in every file that a run leaves."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
from safetensors import safe_open
from trainings import changed

from lorakit.bundle.models import Adapter, Bundle, Dataset
from lorakit.dataset.buckets import fit
from lorakit.dataset.report import DatasetReport, Picture
from lorakit.families.base_model import inspect, usual
from lorakit.families.families import FAMILIES
from lorakit.runs.events import FILE, Event, Log, Saved
from lorakit.train import optim
from lorakit.train.adapters import files, lora
from lorakit.train.adapters.metadata import MAX_TAGS, MAX_TAGS_IN_ALL, Notes
from lorakit.train.control import Control
from lorakit.train.families import sd1
from lorakit.train.loop import train

FAMILY = FAMILIES["sd1"]

REQUIRED = {
    "ss_session_id", "ss_training_started_at", "ss_training_finished_at", "ss_output_name",
    "ss_steps", "ss_epoch", "ss_num_epochs", "ss_learning_rate", "ss_unet_lr",
    "ss_text_encoder_lr", "ss_lr_scheduler", "ss_lr_warmup_steps", "ss_optimizer",
    "ss_max_grad_norm", "ss_max_train_steps", "ss_num_batches_per_epoch",
    "ss_gradient_accumulation_steps", "ss_gradient_checkpointing", "ss_num_train_images",
    "ss_num_reg_images", "ss_network_module", "ss_network_dim", "ss_network_alpha",
    "ss_network_args", "ss_v2", "ss_base_model_version", "ss_sd_model_name", "ss_vae_name",
    "ss_mixed_precision", "ss_cache_latents", "ss_seed", "ss_noise_offset", "ss_min_snr_gamma",
    "ss_batch_size_per_device", "ss_total_batch_size", "ss_resolution", "ss_enable_bucket",
    "ss_bucket_info", "ss_dataset_dirs", "ss_tag_frequency", "sshs_model_hash", "sshs_legacy_hash",
    "modelspec.sai_model_spec", "modelspec.architecture", "modelspec.implementation",
    "modelspec.implementation_version", "modelspec.title", "modelspec.resolution",
    "modelspec.date", "modelspec.prediction_type", "modelspec.trigger_phrase",
    "modelspec.hash_sha256",
}  # fmt: skip

USER = "annprivate"


def notes_of(path: Path) -> dict[str, str]:
    with safe_open(path, "pt") as opened:
        found: dict[str, str] = opened.metadata()
    return found


class StopsWhenSaved(Log):
    """Asks for a stop at the first checkpoint, where that is wanted."""

    wanted = False

    def append(self, event: Event) -> None:
        super().append(event)
        if self.wanted and isinstance(event, Saved):
            (Path(self._file.name).parent / "control" / "stop").touch()


@pytest.fixture
def home(tmp_path: Path, tiny_base: Path, drawn: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with a base and pictures below it."""
    home = tmp_path / "home" / USER
    shutil.copytree(tiny_base, home / "models" / "tiny-base")
    shutil.copytree(drawn, home / "pictures" / "10_dog")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USER", USER)
    return home


@pytest.fixture
def at_home(bundle: Bundle, home: Path) -> Bundle:
    whole = bundle.model_dump(by_alias=True)
    whole["base"]["model"] = str(home / "models" / "tiny-base")
    whole["dataset"]["sources"] = [
        {"path": str(home / "pictures" / "10_dog"), "repeats": 3, "trigger": "ohwx"}
    ]
    whole["train"]["accumulation"] = 2
    whole["sample"]["prompts"] = []
    return Bundle.model_validate(whole)


def left_by(bundle: Bundle, run: Path, stopped: bool) -> dict[Path, int]:
    """Every adapter file that a training leaves, with the step it is of."""
    run.mkdir()
    log = StopsWhenSaved(run / FILE)
    log.wanted = stopped
    finished = train(bundle, run, log, Control(run, log), torch.device("cpu"))
    assert finished.outcome == ("stopped" if stopped else "done")
    kept = {f: int(f.parent.name[5:]) for f in run.glob("checkpoints/*/adapter.safetensors")}
    return {**kept, **dict.fromkeys(run.glob("*.safetensors"), finished.step)}


@pytest.mark.parametrize("stopped", [False, True], ids=["done", "stopped"])
def test_every_file_says_what_was_done_and_nothing_private(
    at_home: Bundle, home: Path, stopped: bool
) -> None:
    found = left_by(at_home, home / "run", stopped)
    assert len(found) == 4  # two checkpoints or one and the one of the stop, and two files
    sessions = set()
    for path, step in found.items():
        raw = path.read_bytes()
        head = 8 + int.from_bytes(raw[:8], "little")
        noted = json.loads(raw[8:head])["__metadata__"]
        assert noted == notes_of(path)
        assert noted.keys() >= REQUIRED
        assert all(isinstance(value, str) for value in noted.values())
        assert list(noted) == sorted(noted)
        assert USER.encode() not in raw[:head]
        assert str(home.parent).encode() not in raw[:head]

        whole = hashlib.sha256(raw[head:]).hexdigest()
        assert noted["sshs_model_hash"] == whole
        assert noted["modelspec.hash_sha256"] == f"0x{whole}"
        window = raw[2**20 : 2**20 + 2**16]
        assert noted["sshs_legacy_hash"] == hashlib.sha256(window).hexdigest()[:8]

        told = {key: noted[key] for key in noted.keys() & EXPECTED.keys()}
        assert told == EXPECTED
        assert noted["ss_steps"] == str(step)
        # 15 pictures in batches of 2 make 9: two square ones make 5, then 3 and 1 for the others.
        per_epoch = int(noted["ss_num_batches_per_epoch"])
        assert noted["ss_epoch"] == str(-(-step * 2 // per_epoch))
        assert noted["ss_num_epochs"] == str(-(-12 // per_epoch))
        assert int(noted["ss_training_started_at"]) <= int(noted["ss_training_finished_at"])
        assert json.loads(noted["ss_dataset_dirs"]) == {"10_dog": {"n_repeats": 3, "img_count": 5}}
        tags = json.loads(noted["ss_tag_frequency"])["10_dog"]
        assert tags == {f"ohwx a yellow circle number {n}": 1 for n in range(5)}
        buckets = json.loads(noted["ss_bucket_info"])
        assert sum(b["count"] for b in buckets["buckets"].values()) == 15
        assert {tuple(b["resolution"]) for b in buckets["buckets"].values()} >= {(32, 32)}
        sessions.add(noted["ss_session_id"])
        assert noted["ss_optimizer"].startswith("torch.optim.adamw.AdamW(betas=(0.9, 0.999),eps=")
    assert len(sessions) == 1


EXPECTED = {
    "ss_output_name": "tiny",
    "ss_learning_rate": "0.01",
    "ss_unet_lr": "0.01",
    "ss_text_encoder_lr": "0.0",
    "ss_lr_scheduler": "cosine",
    "ss_lr_warmup_steps": "2",
    "ss_max_train_steps": "6",
    "ss_gradient_accumulation_steps": "2",
    "ss_gradient_checkpointing": "False",
    "ss_num_train_images": "15",
    "ss_num_reg_images": "0",
    "ss_network_module": "networks.lora",
    "ss_network_dim": "4",
    "ss_network_alpha": "2.0",
    "ss_network_args": '{"targets": "linear"}',
    "ss_v2": "False",
    "ss_base_model_version": "sd_v1",
    "ss_sd_model_name": "tiny-base",
    "ss_vae_name": "None",
    "ss_mixed_precision": "no",
    "ss_cache_latents": "True",
    "ss_seed": "42",
    "ss_noise_offset": "None",
    "ss_batch_size_per_device": "2",
    "ss_total_batch_size": "4",
    "ss_resolution": "(32, 32)",
    "ss_enable_bucket": "True",
    "modelspec.sai_model_spec": "1.0.1",
    "modelspec.architecture": "stable-diffusion-v1/lora",
    "modelspec.implementation": "diffusers",
    "modelspec.title": "tiny",
    "modelspec.resolution": "32x32",
    "modelspec.prediction_type": "epsilon",
    "modelspec.trigger_phrase": "ohwx",
}


SQUARE = fit(512, 512, 512, 64)


def picture(number: int, caption: str, source: int = 0) -> Picture:
    return Picture(
        folder="/p",
        name=f"{number}.png",
        source=source,
        repeats=1,
        width=512,
        height=512,
        fit=SQUARE,
        caption=caption,
        caption_name=None,
        tokens=None,
        sha256="",
        turned=False,
    )


def noted(bundle: Bundle, report: DatasetReport, tmp_path: Path, **more: Any) -> dict[str, str]:
    """The notes of a run that is not trained."""
    weights = [torch.nn.Parameter(torch.zeros(1))]
    made = Notes.of(
        bundle,
        more.get("family", FAMILY),
        more.get("base", usual("sd1", bundle.base.model)),
        report,
        4,
        optim.optimizer(bundle.train, weights),
        tmp_path / more.get("run", "dog-20260101-120000"),
    )
    return made.at(3)


def test_ten_thousand_pictures_with_thirty_tags_each_do_not_blow_the_header_up(
    bundle: Bundle, tmp_path: Path
) -> None:
    pictures = [
        picture(n, ", ".join(["Dog", *(f"tag {n} {t} {'x' * 40}" for t in range(29))]))
        for n in range(10_000)
    ]
    told = noted(bundle, DatasetReport(pictures=tuple(pictures)), tmp_path)
    [tags] = json.loads(told["ss_tag_frequency"]).values()
    assert next(iter(tags.items())) == ("dog", 10_000)
    assert len(tags) == MAX_TAGS
    assert files.write(tmp_path / "a.safetensors", {}, told) < 2**20
    assert notes_of(tmp_path / "a.safetensors").keys() == told.keys()


def test_many_folders_share_the_room_and_long_captions_are_no_tags(
    bundle: Bundle, tmp_path: Path
) -> None:
    sources = [{"path": f"{n}/dog"} for n in range(200)]
    many = bundle.model_copy(update={"dataset": Dataset.model_validate({"sources": sources})})
    captions = [f"{n}, {n} b, {n} {50 * 'word '}" for n in range(24_000)]
    pictures = [picture(n, caption, source=n % 200) for n, caption in enumerate(captions)]
    told = noted(many, DatasetReport(pictures=tuple(pictures)), tmp_path)
    tags = json.loads(told["ss_tag_frequency"])
    assert list(tags)[:3] == ["dog", "dog (2)", "dog (3)"]
    assert {len(t) for t in tags.values()} == {MAX_TAGS_IN_ALL // 200}
    assert sum(d["img_count"] for d in json.loads(told["ss_dataset_dirs"]).values()) == 24_000
    assert len(told["ss_tag_frequency"]) < 10 * 2**20


def test_a_base_is_named_without_its_place(
    bundle: Bundle, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = DatasetReport(pictures=(picture(0, "a"),))

    def name(model: str, folder: Path | None = None) -> str:
        from dataclasses import replace

        base = replace(usual("sd1", model), folder=folder)
        return noted(bundle, report, tmp_path, base=base)["ss_sd_model_name"]

    assert name("pico") == "pico"
    assert name("someone/a-model") == "someone/a-model"
    assert name("someone/a-model", Path("/cache/snapshots/0123abcd")) == "someone/a-model"
    monkeypatch.chdir(home.parent)
    assert inspect(bundle.base, home).folder  # the same facts as in a run
    assert name(f"{USER}/models", home / "models") == "models"
    assert name("~/models/tiny-base") == "tiny-base"
    assert name(str(home)) == "home"


def test_a_session_is_a_run(bundle: Bundle, tmp_path: Path) -> None:
    report = DatasetReport(pictures=(picture(0, "a"),))
    one, again, other = (
        noted(bundle, report, tmp_path, run=run)["ss_session_id"] for run in ("a-1", "a-1", "a-2")
    )
    assert one == again != other
    assert 0 <= int(one) < 2**32


@pytest.mark.parametrize(("given", "told"), [("none", "False"), (12, "True"), ("full", "True")])
def test_checkpointing_is_on_or_off_to_others(
    given: object, told: str, bundle: Bundle, tmp_path: Path
) -> None:
    asked = changed(bundle, memory={"checkpointing": given})
    report = DatasetReport(pictures=(picture(0, "a"),))
    assert noted(asked, report, tmp_path)["ss_gradient_checkpointing"] == told


def test_an_sdxl_file_names_the_code_whose_names_it_has(bundle: Bundle, tmp_path: Path) -> None:
    report = DatasetReport(pictures=(picture(0, "a"),))
    told = noted(bundle, report, tmp_path, family=FAMILIES["sdxl"])
    assert told["modelspec.implementation"] == "https://github.com/Stability-AI/generative-models"


def test_the_legacy_hash_of_a_large_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = tmp_path / "a.safetensors"
    files.write(path, {"a": torch.randn(600_000)}, files.HASHES)
    window = path.read_bytes()[2**20 : 2**20 + 2**16]
    assert len(window) == 2**16
    assert notes_of(path)["sshs_legacy_hash"] == hashlib.sha256(window).hexdigest()[:8]


def test_other_notes_leave_the_hash_of_the_model_as_it_is(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(7.0)}
    found = []
    for title in ("a dog", "another title"):
        files.write(tmp_path / "a.safetensors", tensors, {"title": title, **files.HASHES})
        found.append(notes_of(tmp_path / "a.safetensors")["sshs_model_hash"])
    assert found[0] == found[1]
    assert files.write(tmp_path / "b.safetensors", tensors, {"format": "pt"})
    assert notes_of(tmp_path / "b.safetensors") == {"format": "pt"}


@pytest.mark.slow
def test_diffusers_loads_both_layouts_with_all_their_notes(at_home: Bundle, home: Path) -> None:
    found = left_by(at_home, home / "run", False)
    for path in found:
        pipe = StableDiffusionPipeline.from_pretrained(
            home / "models" / "tiny-base", local_files_only=True
        )
        pipe.load_lora_weights(path)
        [config] = pipe.unet.peft_config.values()
        assert (config.r, config.lora_alpha) == (4, 2.0)


@pytest.mark.slow
def test_wrapped_models_have_the_same_keys(tmp_path: Path) -> None:
    """torch.compile and DistributedDataParallel rename parameters; a file must not show it."""
    from torch import distributed

    def attached() -> UNet2DConditionModel:
        torch.manual_seed(0)
        unet = UNet2DConditionModel(**sd1.FAMILY.tiny())
        lora.attach(unet, FAMILY, Adapter(rank=2, alpha=2.0), 1)
        return unet

    plain = files.kohya(lora.matrices(attached()), FAMILY, 2.0).keys()
    compiled = torch.compile(attached())
    in_part = attached()
    in_part.mid_block = torch.compile(in_part.mid_block)
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=1
    )
    try:
        spread = torch.nn.parallel.DistributedDataParallel(attached())
    finally:
        distributed.destroy_process_group()
    for wrapped in (compiled, in_part, spread):
        names = [n for n, _ in wrapped.named_parameters()]
        assert any("_orig_mod." in n or n.startswith("module.") for n in names)
        assert files.kohya(lora.matrices(wrapped), FAMILY, 2.0).keys() == plain
