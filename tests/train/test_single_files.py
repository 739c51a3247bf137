"""Checkpoints in one file: recognised at their real sizes, and trained at small ones."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import single_files
import torch
from safetensors.torch import load_file, save_file
from trainings import changed, trained, watched

from lorakit.bundle.models import Base, Bundle
from lorakit.errors import LorakitError
from lorakit.families import single_file
from lorakit.families.base_model import inspect, usual
from lorakit.families.digests import digest
from lorakit.families.recognise import recognise
from lorakit.families.shipped import ASSETS, configuration, published
from lorakit.runs.events import Noted
from lorakit.train.families import family_of
from lorakit.train.families.sd1 import FAMILY

FAMILIES = ("sd1", "sd2", "sdxl")
SIZES = {"sd1": 2_132_635_730, "sd2": 2_607_371_011, "sdxl": 6_938_063_419}
"""Bytes of the files with half precision, about those of the published ones."""

COUNTS = {"sd1": 1130, "sd2": 1228, "sdxl": 2514}
"""Tensors in the published files, without numbers of positions."""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Headers of real sizes."""
    folder = tmp_path_factory.mktemp("real")
    made = {}
    for family in FAMILIES:
        shapes = single_files.real_shapes(family, ASSETS / "configs")
        assert len(shapes) == COUNTS[family]
        made[family] = single_files.write_header(folder / f"{family}.safetensors", shapes)
    return made


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path, Any]]:
    """(one file, a diffusers folder, the models) of a family, made once."""
    kept: dict[str, tuple[Path, Path, Any]] = {}

    def made(family: str) -> tuple[Path, Path, Any]:
        if family not in kept:
            folder = tmp_path_factory.mktemp(family)
            parts = single_files.tiny_parts(family)
            file = single_files.tiny_file(family, parts, folder / "model.safetensors")
            kept[family] = file, single_files.tiny_folder(family, parts, folder / "model"), parts
        return kept[family]

    return made


@pytest.mark.parametrize("family", FAMILIES)
def test_files_of_real_sizes_are_what_was_published(family: str, real: dict[str, Path]) -> None:
    found = recognise(real[family])
    assert (found.kind, found.family, found.problem) == ("checkpoint", family, "")
    facts = inspect(Base(family=family, model=str(real[family])), Path("/"))
    assert facts.unet == published(family)
    opened = single_file.opened(real[family])
    for part in ("vae", *single_files.TEXTS[family], "scheduler"):
        assert opened.configs[part] == configuration(family, part)
    expected = usual(family, str(real[family]))
    for name in ("resolution", "size_step", "latent_factor", "token_limit", "prediction"):
        assert getattr(facts, name) == getattr(expected, name)
    assert facts.weight_bytes is not None
    assert SIZES[family] * 0.95 < facts.weight_bytes < SIZES[family]
    layers = {"sd1": 128, "sd2": 128, "sdxl": 560}[family]
    assert facts.extents["attention"].layers == layers


def test_a_clash_is_one_sentence(real: dict[str, Path]) -> None:
    with pytest.raises(LorakitError) as told:
        inspect(Base(family="sd1", model=str(real["sdxl"])), Path("/"))
    assert told.value.message == (
        f"The base model {real['sdxl']} is Stable Diffusion XL (sdxl), and the bundle says sd1."
    )
    assert told.value.hint.startswith('Set base.family = "sdxl"')


def of(bundle: Bundle, family: str, base: Path, **more: dict[str, Any]) -> Bundle:
    sections = {"dataset": {"resolution": 32}, "train": {"steps": 3}, **more}
    return changed(bundle, base={"family": family, "model": str(base)}, **sections)


SLOWLY = [f if f == "sd1" else pytest.param(f, marks=pytest.mark.slow) for f in FAMILIES]


@pytest.mark.parametrize("family", SLOWLY)
def test_a_file_gives_the_lora_of_the_folder(
    family: str, bundle: Bundle, tmp_path: Path, tiny: Callable[[str], tuple[Path, Path, Any]]
) -> None:
    file, folder, _ = tiny(family)
    digests = []
    for number, base in enumerate((file, folder)):
        run = tmp_path / str(number)
        drawing = {"sample": {"prompts": ["a robot"], "every": 0, "steps": 1}}
        finished = trained(of(bundle, family, base, **drawing), run, watched(run))
        digests.append((finished.digest, (run / "samples/000003-1.png").read_bytes()))
    assert digests[0] == digests[1]
    assert digests[0][0]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_weight_arrives(
    family: str, tiny: Callable[[str], tuple[Path, Path, Any]], bundle: Bundle
) -> None:
    file, folder, parts = tiny(family)
    made = family_of(of(bundle, family, file))
    for model, own in (
        (made.load_unet(file, torch.float32), parts["unet"]),
        (made.load_vae(file), parts["vae"]),
    ):
        state = model.state_dict()
        assert all(torch.equal(state[n], v) for n, v in own.state_dict().items())
    texts = ["a robot", "a " * 100]
    ours, theirs = made.load_text(file), made.load_text(folder)
    for text in texts:
        one, other = made.encode_text(ours, text), made.encode_text(theirs, text)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


# What a file says of itself, and what the bundle says over it


@pytest.fixture
def sd1(tiny: Callable[[str], tuple[Path, Path, Any]]) -> tuple[Path, Path, Any]:
    return tiny("sd1")


def marked(parts: Any, file: Path, *names: str) -> Path:
    return single_files.tiny_file("sd1", parts, file, {n: torch.tensor([]) for n in names})


@pytest.mark.parametrize(
    ("names", "prediction", "ends_at_zero"),
    [
        ((), "epsilon", False),
        (("v_pred",), "v_prediction", False),
        (("v_pred", "ztsnr"), "v_prediction", True),
    ],
)
def test_marks_reach_the_noise_schedule_and_the_pictures(
    names: tuple[str, ...], prediction: str, ends_at_zero: bool, sd1: Any, tmp_path: Path
) -> None:
    file = marked(sd1[2], tmp_path / "a.safetensors", *names)
    facts = inspect(Base(model=str(file)), tmp_path)
    assert (facts.prediction, facts.zero_snr) == (prediction, ends_at_zero)
    schedule = FAMILY.alphas_cumprod(facts.scheduler)
    assert (float(schedule[-1]) == 0) is ends_at_zero
    drawing = FAMILY.load_scheduler(facts.scheduler).config
    assert drawing["prediction_type"] == prediction
    assert bool(drawing["rescale_betas_zero_snr"]) is ends_at_zero
    assert (drawing["timestep_spacing"] == "trailing") is ends_at_zero


def test_the_bundle_wins_over_what_a_base_says(sd1: Any, tmp_path: Path) -> None:
    for place in sd1[:2]:
        said = Base(model=str(place), prediction="v_prediction", zero_snr=True)
        facts = inspect(said, tmp_path)
        assert (facts.prediction, facts.zero_snr, facts.says_zero_snr) == (
            "v_prediction",
            True,
            False,
        )
        assert float(FAMILY.alphas_cumprod(facts.scheduler)[-1]) == 0


def test_a_sampler_that_knows_no_zero_snr_is_replaced() -> None:
    pndm = {**configuration("sd1", "scheduler"), "_class_name": "PNDMScheduler"}
    assert type(FAMILY.load_scheduler(pndm)).__name__ == "PNDMScheduler"
    asked = FAMILY.load_scheduler(single_file.zero_snr(pndm))
    assert type(asked).__name__ == "DDIMScheduler"
    assert asked.config["rescale_betas_zero_snr"]
    euler = single_file.zero_snr(configuration("sdxl", "scheduler"))
    assert type(FAMILY.load_scheduler(euler)).__name__ == "EulerDiscreteScheduler"


# What lies about


def test_nothing_is_asked_of_the_network(
    sd1: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an empty cache of the Hub, and every connection refused."""

    def refuse(*args: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    FAMILY.load_unet(sd1[0], torch.float32)
    FAMILY.load_vae(sd1[0])
    FAMILY.load_text(sd1[0])


def test_a_text_encoder_without_its_outer_name_is_read(sd1: Any, tmp_path: Path) -> None:
    """Merges are about that call it cond_stage_model.transformer.embeddings."""
    state = single_files.whole("sd1", sd1[2])
    bare = {n.replace(".text_model.", "."): v.contiguous() for n, v in state.items()}
    ids = {"cond_stage_model.transformer.embeddings.position_ids": torch.arange(77.0)[None]}
    file = tmp_path / "a.safetensors"
    save_file({**bare, **ids}, file)
    assert inspect(Base(model=str(file)), tmp_path).token_limit == 75
    [one], [other] = FAMILY.load_text(file), FAMILY.load_text(sd1[0])
    assert torch.equal(
        FAMILY.encode_text([one], "a")["hidden"], FAMILY.encode_text([other], "a")["hidden"]
    )


def test_files_that_share_a_part_share_its_digest(sd1: Any, tmp_path: Path) -> None:
    """So what a VAE said of pictures holds for each checkpoint that has it."""
    file, _, parts = sd1
    other = marked(parts, tmp_path / "other.safetensors", "v_pred", "zzz")
    assert digest(other, "vae") == digest(file, "vae")
    assert digest(other, "unet") == digest(file, "unet")
    assert digest(other, "vae") != digest(other, "unet")
    assert digest(other, "scheduler") != digest(file, "scheduler")
    whole = bytearray(other.read_bytes())
    at = single_file.opened(other).header.tensors["first_stage_model.quant_conv.bias"].start
    whole[at] ^= 1
    other.write_bytes(whole)
    assert digest(other, "vae") != digest(file, "vae")
    assert digest(other, "unet") == digest(file, "unet")


def test_a_smaller_relative_is_refused(sd1: Any, tmp_path: Path) -> None:
    """As SSD-1B, which lacks blocks of SDXL."""
    shapes = {n: tuple(v.shape) for n, v in single_files.whole("sd1", sd1[2]).items()}
    less = {n: s for n, s in shapes.items() if "middle_block.1." not in n}
    file = single_files.write_header(tmp_path / "a.safetensors", less)
    with pytest.raises(
        LorakitError, match=r"has 40 layers of attention, and a Stable Diffusion 1\.x of"
    ):
        inspect(Base(model=str(file)), tmp_path)


def test_a_part_of_other_sizes_is_named(sd1: Any, tmp_path: Path) -> None:
    state = {n: v.contiguous() for n, v in single_files.whole("sd1", sd1[2]).items()}
    state[single_files.UNET + "time_embed.0.bias"] = torch.zeros(7)
    save_file(state, tmp_path / "a.safetensors")
    with pytest.raises(LorakitError, match=r"The unet in .* has weights of other sizes"):
        FAMILY.load_unet(tmp_path / "a.safetensors", torch.float32)


# Pickles


class _Harm:
    """What runs when it is unpickled as pickles are meant to be."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def test_a_pickle_is_read_only_where_it_is_allowed(sd1: Any, tmp_path: Path) -> None:
    file = tmp_path / "model.ckpt"
    torch.save({"state_dict": single_files.whole("sd1", sd1[2]), "global_step": 7}, file)
    assert recognise(file).kind == "pickle"
    with pytest.raises(LorakitError, match="is a zip checkpoint") as told:
        inspect(Base(model=str(file)), tmp_path)
    assert "base.pickle = true" in told.value.hint
    allowed = Base(model=str(file), pickle=True)
    facts = inspect(allowed, tmp_path)
    assert facts == replace(
        inspect(Base(model=str(sd1[0])), tmp_path),
        model=str(file),
        folder=file,
        notes=("model.ckpt does not say what it predicts, taken: the noise",),
    )
    own = sd1[2]["unet"].state_dict()
    made = FAMILY.load_unet(file, torch.float32).state_dict()
    assert all(torch.equal(made[n], v) for n, v in own.items())
    assert digest(file, "vae") != digest(file, "unet")


def test_code_in_a_pickle_is_never_run(sd1: Any, tmp_path: Path) -> None:
    file, harm = tmp_path / "model.ckpt", tmp_path / "harm"
    torch.save({"state_dict": single_files.whole("sd1", sd1[2]), "x": _Harm(harm)}, file)
    assert recognise(file, pickles=True).family == "sd1"
    assert inspect(Base(model=str(file), pickle=True), tmp_path).family == "sd1"
    with pytest.raises(LorakitError, match="holds more than weights, and is not read"):
        FAMILY.load_unet(file, torch.float32)
    assert not harm.exists()
    torch.load(file, weights_only=False)
    assert harm.exists()  # it would have been


@pytest.mark.parametrize("raw", [b"PK\x03\x04", b"\x80\x02}q\x00.", b"\x80\x04N."])
def test_other_pickles_are_named(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.ckpt").write_bytes(raw)
    found = recognise(tmp_path / "a.ckpt", pickles=True)
    assert (found.kind, found.problem) == (
        "pickle",
        "a.ckpt is a checkpoint of before PyTorch 1.6, or damaged: no zip with a data.pkl in it.",
    )
    with pytest.raises(LorakitError, match="before PyTorch 1"):
        inspect(Base(model="a.ckpt", pickle=True), tmp_path)


def test_a_mixed_folder_trains(bundle: Bundle, sd1: Any, tmp_path: Path) -> None:
    """The UNet in half precision alone, the rest as usual."""
    folder = Path(shutil.copytree(sd1[1], tmp_path / "mixed"))
    plain = folder / "unet" / "diffusion_pytorch_model.safetensors"
    half = {name: value.half() for name, value in load_file(plain).items()}
    save_file(half, plain.with_name("diffusion_pytorch_model.fp16.safetensors"))
    plain.unlink()
    log = watched(tmp_path / "run")
    assert trained(of(bundle, "sd1", folder), tmp_path / "run", log).outcome == "done"
    said = [event.text for event in log.of(Noted)]
    assert "unet: only half precision is there, diffusion_pytorch_model.fp16.safetensors" in said
