"""A folder to work in: a base as far as looking at one goes, and three pictures."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

from lorakit.hardware.facts import Hardware
from lorakit.hardware.files import load

PICTURES = "my [dog] pictures"

MACHINES = Path(__file__).parents[1] / "data" / "hardware"

_LETTERS = [chr(c) for c in range(33, 127)]
_FILES = {
    "model_index.json": {
        "_class_name": "StableDiffusionPipeline",
        "text_encoder": ["transformers", "CLIPTextModel"],
    },
    "scheduler/scheduler_config.json": {"prediction_type": "epsilon"},
    "unet/config.json": {"sample_size": 8, "block_out_channels": [8, 8]},
    "vae/config.json": {"block_out_channels": [8, 8, 8, 8]},
    "text_encoder/config.json": {"max_position_embeddings": 77},
    "tokenizer/vocab.json": {
        word: n
        for n, word in enumerate(
            [*_LETTERS, *(f"{c}</w>" for c in _LETTERS), "<|startoftext|>", "<|endoftext|>"]
        )
    },
}
_WEIGHTS = (
    "unet/diffusion_pytorch_model.safetensors",
    "vae/diffusion_pytorch_model.safetensors",
    "text_encoder/model.safetensors",
)


def make(folder: Path) -> Path:
    """The folder with `base` and the pictures in it."""
    for name, content in _FILES.items():
        file = folder / "base" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
    (folder / "base/tokenizer/merges.txt").write_text("#version: 0.2\n")
    for name in _WEIGHTS:
        (folder / "base" / name).write_bytes(b"\2\0\0\0\0\0\0\0{}")
    (folder / PICTURES).mkdir()
    for number in range(3):
        Image.new("RGB", (64, 64), (number * 80, 0, 0)).save(folder / PICTURES / f"{number}.png")
    return folder


def machine(name: str = "cpu-only") -> Hardware:
    """A recorded machine."""
    return load(MACHINES / f"{name}.toml")
