"""CLIP's text encoders, as every Stable Diffusion has one or two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lorakit.errors import LorakitError
from lorakit.families.components import weight_files


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


def load(folder: Path, tokenizer: str, part: str, device: torch.device | str) -> Encoder:
    """The text encoder in a pipeline's folder `part`, with its tokenizer, fp32, on a device.

    transformers 4 names the weights with `text_model.` in front, 5 writes them without and each
    fills what it does not find with random numbers after a mere warning. So the file is read here,
    in either style, and every weight is counted.
    """
    from safetensors.torch import load_file
    from transformers import (
        CLIPTextConfig,
        CLIPTextModel,
        CLIPTextModelWithProjection,
        CLIPTokenizer,
    )

    config = CLIPTextConfig.from_pretrained(folder / part, local_files_only=True)
    # Of two encoders the second one gives the text as a vector, too, through its projection.
    kind = CLIPTextModelWithProjection if part.endswith("_2") else CLIPTextModel
    model = kind(config)
    own = {k for k in model.state_dict() if not k.endswith("position_ids")}
    state: dict[str, Tensor] = {}
    for file in weight_files(folder, part):
        for key, value in load_file(file).items():
            bare = key.removeprefix("text_model.")
            named = key
            if bare.startswith(("embeddings.", "encoder.", "final_layer_norm.")):
                named = next((k for k in (bare, f"text_model.{bare}") if k in own), bare)
            if not named.endswith("position_ids"):
                state[named] = value.float()
    missing, unexpected = model.load_state_dict(state, strict=False)
    complain(
        part,
        folder,
        [k for k in missing if k in own],
        [k for k in unexpected if "projection" not in k],
    )
    return Encoder(
        CLIPTokenizer.from_pretrained(folder / tokenizer, local_files_only=True),
        model.float().eval().requires_grad_(False).to(device),
    )


def complain(part: str, folder: Path, missing: Sequence[str], unexpected: Sequence[str]) -> None:
    """Raise where a part's file and its configuration do not hold the same weights."""
    if missing or unexpected:
        name = next(iter([*missing, *unexpected]))
        raise LorakitError(
            f"The {part} in {folder} does not fit its configuration: {len(missing)} weights are"
            f" missing and {len(unexpected)} are unknown, {name} for one.",
            "Download the base model again.",
        )
