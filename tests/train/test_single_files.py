"""Checkpoints in one file: recognised at their real sizes, and trained at small ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import single_files
import torch
from trainings import changed, trained, watched

from lorakit.bundle.models import Base, Bundle
from lorakit.errors import LorakitError
from lorakit.families import single_file
from lorakit.families.base_model import inspect, usual
from lorakit.families.recognise import recognise
from lorakit.families.shipped import ASSETS, configuration, published
from lorakit.train.families import family_of

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
    texts = ["a robot", "", "a " * 100]
    ours, theirs = made.load_text(file), made.load_text(folder)
    for text in texts:
        one, other = made.encode_text(ours, text), made.encode_text(theirs, text)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
