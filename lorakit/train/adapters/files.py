"""Adapter files: safetensors with sorted headers, in kohya's layout and in that of diffusers.

No path and no user name goes into a header.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from lorakit import __version__
from lorakit.bundle.models import Bundle
from lorakit.families.families import Family

Matrices = Mapping[str, tuple[Tensor, Tensor]]
"""(down, up) by module name, fp32, on the CPU."""


def kohya(matrices: Matrices, family: Family, alpha: float) -> dict[str, Tensor]:
    """Named tensors as A1111, Forge and ComfyUI read them: one `alpha` a module."""
    made: dict[str, Tensor] = {}
    for module, (down, up) in matrices.items():
        name = family.kohya_name(module)
        made[f"{name}.lora_down.weight"] = down
        made[f"{name}.lora_up.weight"] = up
        made[f"{name}.alpha"] = torch.tensor(alpha)
    return made


def diffusers(matrices: Matrices) -> dict[str, Tensor]:
    """Named tensors as diffusers writes them."""
    made: dict[str, Tensor] = {}
    for module, (down, up) in matrices.items():
        made[f"unet.{module}.lora_A.weight"] = down
        made[f"unet.{module}.lora_B.weight"] = up
    return made


def diffusers_metadata(matrices: Matrices, rank: int, alpha: float) -> dict[str, str]:
    """The adapter's configuration as diffusers looks for it in the header."""
    config = {
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": sorted(matrices),
        "rank_pattern": {},  # older versions look these two up unasked
        "alpha_pattern": {},
    }
    packed = {f"unet.{key}": value for key, value in config.items()}
    return {"format": "pt", "lora_adapter_metadata": json.dumps(packed, sort_keys=True)}


def kohya_metadata(
    bundle: Bundle,
    family: Family,
    tensors: Mapping[str, Tensor],
    step: int,
    prediction: str,
    images: int,
) -> dict[str, str]:
    """The header's notes that A1111, Forge and ComfyUI show and sort by, each a string."""
    train, dataset = bundle.train, bundle.dataset
    side = f"{dataset.resolution}x{dataset.resolution}"
    notes = {
        "ss_base_model_version": family.base_model_version(prediction),
        "ss_v2": family.is_v2,
        "ss_network_module": "networks.lora",
        "ss_network_dim": bundle.adapter.rank,
        "ss_network_alpha": bundle.adapter.alpha,
        "ss_output_name": bundle.name,
        "ss_steps": step,
        "ss_max_train_steps": train.steps,
        "ss_learning_rate": train.learning_rate,
        "ss_lr_scheduler": train.schedule,
        "ss_lr_warmup_steps": train.warmup_steps,
        "ss_optimizer": train.optimizer,
        "ss_max_grad_norm": train.clip_norm,
        "ss_batch_size_per_device": train.batch_size,
        "ss_gradient_accumulation_steps": train.accumulation,
        "ss_gradient_checkpointing": bundle.memory.checkpointing != "none",
        "ss_mixed_precision": "no" if train.precision == "fp32" else train.precision,
        "ss_seed": train.seed,
        "ss_num_train_images": images,
        "ss_resolution": f"({dataset.resolution}, {dataset.resolution})",
        "ss_enable_bucket": dataset.buckets,
        "ss_min_snr_gamma": bundle.loss.snr_gamma or None,
        "ss_noise_offset": bundle.loss.noise_offset or None,
        "ss_training_finished_at": f"{time.time():.0f}",
        "modelspec.sai_model_spec": "1.0.1",
        "modelspec.architecture": family.architecture(prediction),
        "modelspec.implementation": family.implementation,
        "modelspec.implementation_version": f"lorakit/{__version__}",
        "modelspec.title": bundle.name,
        "modelspec.resolution": side,
        "modelspec.prediction_type": "v" if prediction == "v_prediction" else "epsilon",
        "modelspec.date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "sshs_model_hash": _data_hash(tensors),
    }
    triggers = sorted({s.trigger for s in dataset.sources if s.trigger})
    if triggers:
        notes["modelspec.trigger_phrase"] = ", ".join(triggers)
    return {key: str(value) for key, value in notes.items()}


def _data_hash(tensors: Mapping[str, Tensor]) -> str:
    """sha256 of the bytes behind the header, which is what `sshs_model_hash` means."""
    whole = safetensors.torch.save(dict(tensors))
    return hashlib.sha256(whole[8 + int.from_bytes(whole[:8], "little") :]).hexdigest()


def write(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> int:
    """Write a safetensors file, complete or not at all, and return its size in bytes.

    The library orders the header's notes anew in each process; here they are sorted, so that equal
    content gives equal bytes.
    """
    whole = safetensors.torch.save(dict(tensors), metadata=dict(metadata))
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(len(text).to_bytes(8, "little"))
            file.write(text)
            file.write(whole[8 + length :])
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return path.stat().st_size


def digest(tensors: Mapping[str, Tensor]) -> str:
    """The result digest: sha256 over sorted (key, dtype, shape, bytes)."""
    whole = hashlib.sha256()
    for key in sorted(tensors):
        value = tensors[key].detach().cpu().contiguous()
        whole.update(f"{key}\0{value.dtype}\0{list(value.shape)}\0".encode())
        whole.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()
