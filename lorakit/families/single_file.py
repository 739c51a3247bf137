"""A base model in one file of the original layout: its parts, and their configurations.

The published configurations ship with lorakit. What shapes say of sizes is put into them; what no
shape says, such as the number of heads, stays as published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lorakit.errors import LorakitError
from lorakit.families import counts, layouts, pickled, sniff
from lorakit.families.content import Content
from lorakit.families.families import FAMILIES
from lorakit.families.header import Header, Stored
from lorakit.families.ldm_names import as_attentions
from lorakit.families.shipped import configuration

HEAD = 64
"""Width of a head of attention in SD 2, SDXL and all text encoders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleFile:
    """What is known of a whole checkpoint before its weights are read."""

    path: Path
    header: Header
    content: Content
    prefixes: Mapping[str, str]
    """What stands before the names of each part that has weights, by its folder in diffusers."""
    configs: Mapping[str, Mapping[str, Any]]
    """Configuration of each part that has one, as diffusers and transformers read it."""

    def tensors(self, part: str) -> dict[str, Stored]:
        """The tensors of one part that are loaded, by their names in the file."""
        prefix = self.prefixes[part]
        unread = _unread(part, self.configs[part]) if self.content.family == "sd2" else ()
        return {
            name: tensor
            for name, tensor in self.header.tensors.items()
            if name.startswith(prefix) and not name.removeprefix(prefix).startswith(unread)
        }

    def shapes(self, part: str) -> dict[str, tuple[int, ...]]:
        """Shapes of all that belongs to one part, by name without what stands before each."""
        return _shapes(self.header, self.prefixes[part])

    def weight_bytes(self, part: str) -> int:
        """Size of one part."""
        return sum(tensor.bytes for tensor in self.tensors(part).values())


def _unread(part: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """SD 2 reads the text before the last layer, which is in its files all the same."""
    if part != "text_encoder":
        return ()
    return (f"transformer.resblocks.{config['num_hidden_layers']}.", "text_projection")


def opened(path: Path) -> SingleFile:
    """The checkpoint in a file. Raises LorakitError where it is none that can be trained on."""
    try:
        facts = path.stat()
        return _opened(path, (facts.st_size, facts.st_mtime_ns, facts.st_ino))
    except OSError as error:
        raise LorakitError(
            f"{path} cannot be read: {error.strerror or error}.", "Look at its permissions."
        ) from None


@cache
def _opened(path: Path, stamp: tuple[int, ...]) -> SingleFile:
    found = sniff.wrong(path)
    if not isinstance(found, Header):
        if not found.pickled:
            raise LorakitError(f"{path.name} is {found.what}.", found.fix)
        try:
            found = pickled.read(path)
        except ValueError as error:
            raise LorakitError(
                f"{path.name} {error}.", "Get the .safetensors file of the same model."
            ) from None
    content = layouts.content(found)
    if content.wrong:
        raise LorakitError(f"{path.name} {content.wrong}.", content.fix)
    prefixes = layouts.prefixes(found, content.family)
    shapes = {part: _shapes(found, prefix) for part, prefix in prefixes.items()}
    try:
        configs = _configs(content, shapes)
    except (LookupError, ValueError) as error:
        raise LorakitError(
            f"{path.name} does not say how it is built: {error} is missing, or of another shape.",
            "Download it again, or choose another model.",
        ) from None
    _whole(path, content, configs["unet"], shapes["unet"])
    return SingleFile(path=path, header=found, content=content, prefixes=prefixes, configs=configs)


def _shapes(header: Header, prefix: str) -> dict[str, tuple[int, ...]]:
    named = header.tensors.items()
    return {n.removeprefix(prefix): t.shape for n, t in named if n.startswith(prefix)}


def _whole(path: Path, content: Content, unet: Mapping[str, Any], shapes: Shapes) -> None:
    """Raise where the UNet has other blocks than one of its sizes has in this family."""
    family = FAMILIES[content.family]
    here = len(family.adapted(layers(shapes), "attention"))
    wanted = counts.modules(unet, "attention")
    if here != wanted:
        raise LorakitError(
            f"{path.name} has {here} layers of attention, and a {family.title} of its sizes has"
            f" {wanted}.",
            "It may be a smaller relative, such as SSD-1B or Vega, which is not trained here.",
        )


Shapes = Mapping[str, tuple[int, ...]]


def layers(shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """Shapes of a UNet's layers, with those inside of attention named as diffusers names them, up
    to the numbers of blocks."""
    ends = ".weight"
    named = {as_attentions(n): s for n, s in shapes.items() if n.endswith(ends) and len(s) > 1}
    return {name.removesuffix(ends): shape for name, shape in named.items()}


def _configs(content: Content, shapes: Mapping[str, Shapes]) -> dict[str, Mapping[str, Any]]:
    family = content.family
    found: dict[str, Mapping[str, Any]] = {}
    for _, part in FAMILIES[family].text:
        read = _clip if any(".layers." in name for name in shapes[part]) else _open_clip
        found[part] = read(shapes[part], configuration(family, part), family)
    found["vae"] = _vae(shapes["vae"], configuration(family, "vae"))
    pooled = found.get("text_encoder_2", {}).get("projection_dim", 0)
    found["unet"] = _unet(shapes["unet"], configuration(family, "unet"), pooled)
    if family == "sd2" and content.prediction == "v_prediction":
        found["unet"] = {**found["unet"], "sample_size": 96}  # they were trained at 768
    scheduler = configuration(family, "scheduler")
    if content.prediction:
        scheduler["prediction_type"] = content.prediction
    found["scheduler"] = zero_snr(scheduler) if content.zero_snr else scheduler
    return found


def zero_snr(scheduler: Mapping[str, Any]) -> dict[str, Any]:
    """A scheduler's configuration whose noise ends at SNR 0, and which draws from there."""
    return {**scheduler, "rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}


def _numbers(shapes: Shapes, start: str) -> int:
    """How many there are of what is counted behind `start`."""
    behind = (n.removeprefix(start).partition(".")[0] for n in shapes if n.startswith(start))
    return 1 + max(map(int, behind), default=-1)


def _unet(shapes: Shapes, published: dict[str, Any], pooled: int) -> dict[str, Any]:
    blocks = _numbers(shapes, "input_blocks.")
    halving = [n for n in range(blocks) if f"input_blocks.{n}.0.op.weight" in shapes]
    each = (halving[0] if halving else blocks) - 1
    starts = [1, *(n + 1 for n in halving)]
    channels = [shapes[f"input_blocks.{n}.0.out_layers.3.weight"][0] for n in starts]
    depths = [_numbers(shapes, f"input_blocks.{n}.1.transformer_blocks.") for n in starts]
    text = next(s for n, s in shapes.items() if n.endswith(".attn2.to_k.weight"))
    made = {
        **published,
        "in_channels": shapes["input_blocks.0.0.weight"][1],
        "out_channels": shapes["out.2.weight"][0],
        "block_out_channels": channels,
        "layers_per_block": each,
        "cross_attention_dim": text[1],
        "down_block_types": [f"{'CrossAttn' * (d > 0)}DownBlock2D" for d in depths],
        "up_block_types": [f"{'CrossAttn' * (d > 0)}UpBlock2D" for d in depths[::-1]],
    }
    if "transformer_layers_per_block" in published or max(depths) > 1:
        made["transformer_layers_per_block"] = [max(d, 1) for d in depths]
    if isinstance(published["attention_head_dim"], list):
        made["attention_head_dim"] = [max(c // HEAD, 1) for c in channels]
    if "label_emb.0.0.weight" in shapes:
        labels = shapes["label_emb.0.0.weight"][1]
        made["projection_class_embeddings_input_dim"] = labels
        made["addition_time_embed_dim"] = (labels - pooled) // 6
    return made


def _vae(shapes: Shapes, published: dict[str, Any]) -> dict[str, Any]:
    levels = _numbers(shapes, "encoder.down.")
    channels = [shapes[f"encoder.down.{n}.block.0.conv1.weight"][0] for n in range(levels)]
    made = {
        **published,
        "block_out_channels": channels,
        "layers_per_block": _numbers(shapes, "encoder.down.0.block."),
        "latent_channels": shapes["decoder.conv_in.weight"][1],
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
    }
    if "encoder.mid.attn_1.q.weight" not in shapes:
        made["mid_block_add_attention"] = False
    return made


def _clip(shapes: Shapes, published: dict[str, Any], family: str) -> dict[str, Any]:
    """A text encoder with the names of transformers, with `text_model.` before them or without."""
    bare = {name.removeprefix("text_model."): shape for name, shape in shapes.items()}
    vocabulary, width = bare["embeddings.token_embedding.weight"]
    return {
        **published,
        "vocab_size": vocabulary,
        "max_position_embeddings": bare["embeddings.position_embedding.weight"][0],
        "hidden_size": width,
        "intermediate_size": bare["encoder.layers.0.mlp.fc1.weight"][0],
        "num_hidden_layers": _numbers(bare, "encoder.layers."),
        "num_attention_heads": max(width // HEAD, 1),
    }


def _open_clip(shapes: Shapes, published: dict[str, Any], family: str) -> dict[str, Any]:
    """A text encoder with the names of OpenCLIP. SD 2 does not use the last layer; a file made from
    a diffusers folder has none beyond the published 23."""
    vocabulary, width = shapes["token_embedding.weight"]
    there = _numbers(shapes, "transformer.resblocks.")
    unread = family == "sd2" and there != published["num_hidden_layers"]
    made = {
        **published,
        "vocab_size": vocabulary,
        "max_position_embeddings": shapes["positional_embedding"][0],
        "hidden_size": width,
        "intermediate_size": shapes["transformer.resblocks.0.mlp.c_fc.weight"][0],
        "num_hidden_layers": there - unread,
        "num_attention_heads": max(width // HEAD, 1),
    }
    if family == "sdxl":
        made["projection_dim"] = shapes["text_projection"][1]
    return made
