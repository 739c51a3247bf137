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
from lorakit.train.adapters import files, lora, verify
from lorakit.train.families import sd1

FAMILY = FAMILIES["sd1"]

KEYS_OF_SD15 = (576, "edd9350fcb5a736ed3b4c4b80a85bc0c8a95f674b3833f7cae18253df68e9e67")
"""Count and sha256 of the sorted "key shape" lines: U-Net part of a rank 4 file by sd-scripts."""


def adapted(adapter: Adapter, config: dict, device: str = "meta") -> UNet2DConditionModel:
    with torch.device(device):
        unet = UNet2DConditionModel(**config)
    lora.attach(unet, FAMILY, adapter, seed=3)
    return unet


def shapes(unet: torch.nn.Module) -> dict[str, list[int]]:
    """Key to shape, as kohya's layout has them; meta tensors have shapes enough."""
    made = {}
    for name, layer in lora.layers(unet).items():
        kohya = FAMILY.kohya_name(name)
        made[f"{kohya}.lora_down.weight"] = list(layer.lora_A[lora.NAME].weight.shape)
        made[f"{kohya}.lora_up.weight"] = list(layer.lora_B[lora.NAME].weight.shape)
        made[f"{kohya}.alpha"] = []
    return made


def test_sd15_rank_4_on_attention() -> None:
    unet = adapted(Adapter(rank=4, alpha=4.0, targets="attention"), sd1.real())
    weights = [p for p in unet.parameters() if p.requires_grad]
    assert len(lora.layers(unet)) == 128
    assert sum(w.numel() for w in weights) == 797_184


def test_sd15_on_linear_has_the_keys_of_sd_scripts() -> None:
    unet = adapted(Adapter(rank=4, alpha=4.0, targets="linear"), sd1.real())
    assert len(lora.layers(unet)) == 192
    lines = "\n".join(sorted(f"{k} {v}" for k, v in shapes(unet).items()))
    assert (len(shapes(unet)), hashlib.sha256(lines.encode()).hexdigest()) == KEYS_OF_SD15


def test_an_sd15_file_is_as_large_as_it_should_be(tmp_path: Path) -> None:
    unet = adapted(Adapter(rank=4, alpha=4.0, targets="attention"), sd1.real())
    matrices = {
        n: tuple(torch.zeros(p[lora.NAME].weight.shape) for p in (layer.lora_A, layer.lora_B))
        for n, layer in lora.layers(unet).items()
    }
    size = files.write(tmp_path / "a.safetensors", files.kohya(matrices, FAMILY, 4.0), {})
    assert 3_200_000 <= size <= 3_300_000


def test_the_start_changes_nothing_and_follows_from_the_seed() -> None:
    def fresh(seed: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        unet = UNet2DConditionModel(**sd1.tiny())
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
