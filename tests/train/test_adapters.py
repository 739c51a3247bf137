"""Names, shapes and counts of what is trained, on the real configuration; and the files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from diffusers import UNet2DConditionModel
from safetensors.torch import load_file

from lorakit.bundle.models import Adapter
from lorakit.errors import LorakitError
from lorakit.families.families import FAMILIES
from lorakit.planner.disk import EXTENTS
from lorakit.train.adapters import files, lora, metadata, verify
from lorakit.train.families import sd1, sd2, sdxl

FAMILY = FAMILIES["sd1"]
MODULES = {"sd1": sd1, "sd2": sd2, "sdxl": sdxl}

KEYS_OF_SD_SCRIPTS = {
    "sd1": (576, "edd9350fcb5a736ed3b4c4b80a85bc0c8a95f674b3833f7cae18253df68e9e67"),
    "sd2": (576, "ff920ecde352a1a65469caf4d95613edc67d3a4306577883c2bca90aec6a073d"),
    "sdxl": (2166, "2a3070855670a1a3e743ab14c4cda7373f30fee34a7a6777a7ca623d94d5b4bb"),
}
"""Count and sha256 of the sorted "key shape" lines: U-Net part of a rank 4 file by sd-scripts.

For SD 2 sd-scripts takes the projections for convolutions of 1 x 1; in diffusers, which refuses
such matrices there, they are linear, as they are in the original. The hash is that of the table
without the two ones.
"""


def adapted(adapter: Adapter, name: str = "sd1") -> UNet2DConditionModel:
    """A UNet of real size with an adapter, on the meta device."""
    family = MODULES[name].FAMILY
    with torch.device("meta"):
        unet = UNet2DConditionModel(**family.real())
    lora.attach(unet, family.facts, adapter, seed=3)
    return unet


def shapes(unet: torch.nn.Module, name: str) -> dict[str, list[int]]:
    """Key to shape, as kohya's layout has them; meta tensors have shapes enough."""
    made = {}
    for module, layer in lora.layers(unet).items():
        kohya = FAMILIES[name].kohya_name(module)
        made[f"{kohya}.lora_down.weight"] = list(layer.lora_A[lora.NAME].weight.shape)
        made[f"{kohya}.lora_up.weight"] = list(layer.lora_B[lora.NAME].weight.shape)
        made[f"{kohya}.alpha"] = []
    return made


@pytest.mark.parametrize(
    ("name", "modules", "weights"),
    [
        ("sd1", 128, 797_184),
        ("sd2", 128, 829_952),
        pytest.param("sdxl", 560, 5_806_080, marks=pytest.mark.slow),
    ],
)
def test_rank_4_on_attention(name: str, modules: int, weights: int) -> None:
    unet = adapted(Adapter(rank=4, alpha=4.0, targets="attention"), name)
    assert len(lora.layers(unet)) == modules == EXTENTS[name]["attention"].layers
    assert sum(p.numel() for p in unet.parameters() if p.requires_grad) == weights
    assert weights == 4 * EXTENTS[name]["attention"].weights_a_rank


@pytest.mark.parametrize(("name", "modules"), [("sd1", 192), ("sd2", 192), ("sdxl", 722)])
def test_rank_4_on_linear_has_the_keys_of_sd_scripts(name: str, modules: int) -> None:
    unet = adapted(Adapter(rank=4, alpha=4.0, targets="linear"), name)
    assert len(lora.layers(unet)) == modules == EXTENTS[name]["linear"].layers
    weights = sum(p.numel() for p in unet.parameters() if p.requires_grad)
    assert weights == 4 * EXTENTS[name]["linear"].weights_a_rank
    found = shapes(unet, name)
    lines = "\n".join(sorted(f"{k} {v}" for k, v in found.items()))
    assert (len(found), hashlib.sha256(lines.encode()).hexdigest()) == KEYS_OF_SD_SCRIPTS[name]


def test_an_sd15_file_is_as_large_as_it_should_be(tmp_path: Path) -> None:
    unet = adapted(Adapter(rank=4, alpha=4.0, targets="attention"))
    matrices = {
        n: tuple(torch.zeros(p[lora.NAME].weight.shape) for p in (layer.lora_A, layer.lora_B))
        for n, layer in lora.layers(unet).items()
    }
    size = files.write(tmp_path / "a.safetensors", files.kohya(matrices, FAMILY, 4.0), {})
    assert 3_200_000 <= size <= 3_300_000


def test_the_start_changes_nothing_and_follows_from_the_seed() -> None:
    def fresh(seed: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        unet = UNet2DConditionModel(**sd1.FAMILY.tiny())
        lora.attach(unet, FAMILY, Adapter(rank=2, alpha=2.0), seed)
        return files.diffusers(lora.matrices(unet))

    first, again, other = fresh(1), fresh(1), fresh(2)
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert not all(torch.equal(first[k], other[k]) for k in first)
    assert not any(v.any() for k, v in first.items() if "lora_B" in k)


def test_a_model_without_targets_is_refused() -> None:
    with pytest.raises(LorakitError, match="targets attention"):
        lora.attach(torch.nn.Sequential(torch.nn.Linear(2, 2)), FAMILY, Adapter(), 1)


@pytest.fixture
def matrices() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    name = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_"
    return {f"{name}{q}": (torch.randn(4, 16), torch.randn(16, 4)) for q in "qkv"}


def test_equal_content_gives_equal_bytes_and_digest(tmp_path: Path, matrices: dict) -> None:
    tensors = files.kohya(matrices, FAMILY, 2.0)
    backwards = dict(reversed(tensors.items()))
    notes = {f"k{i}": str(i) for i in range(20)}
    files.write(tmp_path / "a", tensors, notes)
    files.write(tmp_path / "b", backwards, dict(reversed(notes.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (
        files.digest(tensors) == files.digest(backwards) == files.digest(load_file(tmp_path / "a"))
    )
    first = next(iter(tensors))
    changed = {**tensors, first: tensors[first] + 1}
    assert files.digest(changed) != files.digest(tensors)


def test_verify_names_what_is_wrong(tmp_path: Path, matrices: dict) -> None:
    tensors = files.kohya(matrices, FAMILY, 2.0)
    files.write(tmp_path / "a.safetensors", tensors, {})
    verify.tensors(tmp_path / "a.safetensors", tensors)
    first = next(iter(tensors))
    with pytest.raises(LorakitError, match=first):
        verify.tensors(tmp_path / "a.safetensors", {**tensors, first: tensors[first] + 1})
    verify.learned(matrices)
    with pytest.raises(LorakitError, match="not finite"):
        verify.learned({"a": (torch.ones(2), torch.tensor([torch.nan]))})
    with pytest.raises(LorakitError, match="empty"):
        verify.learned({"a": (torch.ones(2), torch.zeros(2))})


def test_a_file_with_too_few_modules_is_not_what_was_meant(tmp_path: Path) -> None:
    """What a library does that renames some layers: those slip away without an error."""
    torch.manual_seed(0)
    unet = UNet2DConditionModel(**sd1.FAMILY.tiny())
    lora.attach(unet, FAMILY, Adapter(rank=2, alpha=2.0), 1)
    matrices = lora.matrices(unet)
    whole, part = tmp_path / "whole.safetensors", tmp_path / "part.safetensors"
    files.write(whole, files.kohya(matrices, FAMILY, 2.0), {})
    verify.modules(whole, unet.config, "attention")
    files.write(part, files.kohya(dict(list(matrices.items())[:-1]), FAMILY, 2.0), {})
    count = len(matrices)
    with pytest.raises(LorakitError, match=f"holds {count - 1} modules.*has {count} for attention"):
        verify.modules(part, unet.config, "attention")


@pytest.mark.parametrize("layout", ["kohya", "diffusers"])
def test_a_reader_counts_what_it_takes(tmp_path: Path, layout: str) -> None:
    """A wrong prefix, a module that is not there, nothing at all: none of them is a quiet no-op."""

    def plain() -> UNet2DConditionModel:
        torch.manual_seed(0)
        return UNet2DConditionModel(**sd1.FAMILY.tiny())

    unet = plain()
    lora.attach(unet, FAMILY, Adapter(rank=2, alpha=2.0), 1)
    matrices = lora.matrices(unet)
    count = len(matrices)
    if layout == "kohya":
        tensors, prefix, notes = files.kohya(matrices, FAMILY, 2.0), "lora_unet_", {}
    else:
        tensors, prefix = files.diffusers(matrices), "unet."
        notes = metadata.diffusers(matrices, 2, 2.0)
    file = tmp_path / "a.safetensors"
    files.write(file, tensors, notes)
    fresh = plain()
    sd1.FAMILY.load_adapter(fresh, file)
    assert lora.count(fresh, "loaded") == count

    for wrong, held in (
        ({k.replace(prefix, f"{prefix}other_"): v for k, v in tensors.items()}, count),
        ({k.replace("mid_block", "mid_blok"): v for k, v in tensors.items()}, count),
        ({"note": torch.zeros(1)}, 0),
    ):
        files.write(file, wrong, {})
        with pytest.raises(LorakitError, match=f"a.safetensors holds {held} modules"):
            sd1.FAMILY.load_adapter(plain(), file)


def test_weights_too_small_for_fp16_survive_in_a_file(tmp_path: Path) -> None:
    small = torch.logspace(-9, -3, 64).reshape(4, 16)
    file = tmp_path / "a.safetensors"
    files.write(file, files.kohya({"mid_block.a": (small, small.T.contiguous())}, FAMILY, 1.0), {})
    for tensor in load_file(file).values():
        assert tensor.dtype == torch.float32
        assert tensor.dim() == 0 or torch.equal(tensor.reshape(-1).sort()[0], small.reshape(-1))
