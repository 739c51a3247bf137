"""CLIP's text encoders, as every Stable Diffusion has one or two of them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lorakit.errors import LorakitError
from lorakit.families import components
from lorakit.families.clip_vocabulary import END, write
from lorakit.families.single_file import opened
from lorakit.train.families import one_file


@dataclass(frozen=True, slots=True)
class Encoder:
    """A tokenizer and its text encoder."""

    tokenizer: Any
    model: Any
    """fp32, frozen."""

    def read(self, text: str) -> Any:
        """The model's whole answer to one text, padded as its tokenizer pads."""
        ids = self.tokenizer(
            [text],
            padding="max_length",
            max_length=self.model.config.max_position_embeddings,
            truncation=True,
            return_tensors="pt",
        ).input_ids
        return self.model(ids.to(self.model.device), output_hidden_states=True)


def load(base: Path, tokenizer: str, part: str, device: torch.device | str) -> Encoder:
    """The text encoder of a base that diffusers keeps in the folder `part`, with its tokenizer,
    fp32, on a device.

    transformers 4 names the weights with `text_model.` in front, 5 writes them without and each
    fills what it does not find with random numbers after a mere warning. So the file is read here,
    in either style, and every weight is counted.
    """
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    if base.is_file():
        config = CLIPTextConfig(**components.config(base, part))
    else:
        config = CLIPTextConfig.from_pretrained(base / part, local_files_only=True)
    # Of two encoders the second one gives the text as a vector, too, through its projection.
    kind = CLIPTextModelWithProjection if part.endswith("_2") else CLIPTextModel
    model = kind(config)
    own = {k for k in model.state_dict() if not k.endswith("position_ids")}
    state: dict[str, Tensor] = {}
    for key, value in _weights(base, part).items():
        bare = key.removeprefix("text_model.")
        named = key
        if bare.startswith(("embeddings.", "encoder.", "final_layer_norm.")):
            named = next((k for k in (bare, f"text_model.{bare}") if k in own), bare)
        if not named.endswith("position_ids"):
            state[named] = value.float()
    missing, unexpected = model.load_state_dict(state, strict=False)
    complain(
        part,
        base,
        [k for k in missing if k in own],
        [k for k in unexpected if "projection" not in k and k != "logit_scale"],
    )
    return Encoder(
        _tokenizer(base, tokenizer),
        model.float().eval().requires_grad_(False).to(device),
    )


def _weights(base: Path, part: str) -> dict[str, Tensor]:
    if base.is_file():
        return one_file.text_weights(base, part)
    from safetensors.torch import load_file

    files = components.weight_files(base, part)
    return {key: value for file in files for key, value in load_file(file).items()}


def _tokenizer(base: Path, part: str) -> Any:
    """The tokenizer in a folder; a single file has CLIP's. That of SD 2 and the second one of SDXL
    fill up with `!`."""
    from transformers import CLIPTokenizer

    if not base.is_file():
        return CLIPTokenizer.from_pretrained(base / part, local_files_only=True)
    pads = "!" if part.endswith("_2") or opened(base).content.family == "sd2" else END
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        return CLIPTokenizer.from_pretrained(folder, pad_token=pads, local_files_only=True)


def complain(part: str, folder: Path, missing: Sequence[str], unexpected: Sequence[str]) -> None:
    """Raise where a part's file and its configuration do not hold the same weights."""
    if missing or unexpected:
        name = next(iter([*missing, *unexpected]))
        raise LorakitError(
            f"The {part} in {folder} does not fit its configuration: {len(missing)} weights are"
            f" missing and {len(unexpected)} are unknown, {name} for one.",
            "Download the base model again.",
        )
