"""Single files in the published layouts of SD 1, SD 2 and SDXL, made from diffusers' models.

The names are those of the original implementation, written down here from the published files and
not taken from lorakit. Models on meta give headers of real sizes, whose weights are holes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

UNET = "model.diffusion_model."
VAE = "first_stage_model."
TEXTS = {
    "sd1": {"text_encoder": "cond_stage_model.transformer."},
    "sd2": {"text_encoder": "cond_stage_model.model."},
    "sdxl": {
        "text_encoder": "conditioner.embedders.0.transformer.",
        "text_encoder_2": "conditioner.embedders.1.model.",
    },
}

_RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
_AROUND = {
    "conv_in": "input_blocks.0.0",
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
    "mid_block.resnets.0": "middle_block.0",
    "mid_block.attentions.0": "middle_block.1",
    "mid_block.resnets.1": "middle_block.2",
}


def unet(state: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """A UNet's weights by their original names, with `layers` a block on the way down."""

    def named(name: str) -> str:
        for ours, theirs in _AROUND.items():
            if name.startswith(f"{ours}."):
                return _resnet(name.replace(ours, theirs, 1))
        way, level, kind, layer, rest = name.split(".", 4)
        index, place = int(level), int(layer)
        if way == "down_blocks":
            if kind == "downsamplers":
                block = f"input_blocks.{(index + 1) * (layers + 1)}.0.op"
                return f"{block}.{rest.removeprefix('conv.')}"
            block = f"input_blocks.{1 + index * (layers + 1) + place}"
        else:
            if kind == "upsamplers":
                attends = any(n.startswith(f"up_blocks.{level}.attentions.") for n in state)
                block = f"output_blocks.{index * (layers + 1) + layers}.{1 + attends}"
                return f"{block}.{rest}"
            block = f"output_blocks.{index * (layers + 1) + place}"
        return _resnet(f"{block}.{0 if kind == 'resnets' else 1}.{rest}")

    return {named(name): value for name, value in state.items()}


def _resnet(name: str) -> str:
    for ours, theirs in _RESNET.items():
        name = re.sub(
            rf"^((in|out)put_blocks\.\d+\.0|middle_block\.\d)\.{ours}\.", rf"\1.{theirs}.", name
        )
    return name


_VAE = (
    (r"(en|de)coder\.mid_block\.attentions\.0\.", r"\1coder.mid.attn_1."),
    (r"\.group_norm\.", ".norm."),
    (r"\.to_([qkv])\.", r".\1."),
    (r"\.to_out\.0\.", ".proj_out."),
    (r"mid_block\.resnets\.0\.", "mid.block_1."),
    (r"mid_block\.resnets\.1\.", "mid.block_2."),
    (r"down_blocks\.(\d)\.resnets\.", r"down.\1.block."),
    (r"down_blocks\.(\d)\.downsamplers\.0\.", r"down.\1.downsample."),
    (r"up_blocks\.(\d)\.resnets\.", r"up.\1.block."),
    (r"up_blocks\.(\d)\.upsamplers\.0\.", r"up.\1.upsample."),
    (r"conv_shortcut", "nin_shortcut"),
    (r"conv_norm_out", "norm_out"),
)


def vae(state: Mapping[str, Any], levels: int) -> dict[str, Any]:
    """A VAE's weights by their original names. Attention there is made of convolutions, and levels
    count from the largest picture on both ways."""
    found = {}
    for name, value in state.items():
        attends = ".attentions." in name and value.ndim == 2
        for pattern, text in _VAE:
            name = re.sub(pattern, text, name)
        name = re.sub(r"\.up\.(\d)", lambda m: f".up.{levels - 1 - int(m[1])}", name)
        found[name] = value[..., None, None] if attends else value
    return found


def clip(state: Mapping[str, Any]) -> dict[str, Any]:
    """The first text encoder's weights, as transformers 4 named them."""
    return {f"text_model.{name.removeprefix('text_model.')}": v for name, v in state.items()}


_OPEN = (
    (r"^encoder\.layers\.", "transformer.resblocks."),
    (r"^embeddings\.token_embedding\.", "token_embedding."),
    (r"^embeddings\.position_embedding\.weight", "positional_embedding"),
    (r"^final_layer_norm\.", "ln_final."),
    (r"\.layer_norm(\d)\.", r".ln_\1."),
    (r"\.mlp\.fc1\.", ".mlp.c_fc."),
    (r"\.mlp\.fc2\.", ".mlp.c_proj."),
    (r"\.self_attn\.out_proj\.", ".attn.out_proj."),
)


def open_clip(state: Mapping[str, Any], last: bool = False) -> dict[str, Any]:
    """A text encoder as OpenCLIP names it; `last` adds the last layer, which SD 2 does not use."""
    import torch

    found: dict[str, Any] = {}
    for name, value in state.items():
        name = name.removeprefix("text_model.")
        if name == "text_projection.weight":
            found["text_projection"] = value.T.contiguous()
            continue
        for pattern, text in _OPEN:
            name = re.sub(pattern, text, name)
        if ".q_proj." not in name and ".k_proj." not in name and ".v_proj." not in name:
            found[name] = value
        elif ".q_proj." in name:
            own = next(n for n in state if n.endswith(_back(name)))
            three = [state[own.replace(".q_proj.", f".{x}_proj.")] for x in "qkv"]
            name = name.replace(".self_attn.q_proj.", ".attn.in_proj_")
            found[name] = torch.cat(three)
    found["logit_scale"] = torch.tensor(4.6, device=value.device)
    if last:
        width = found["ln_final.weight"].shape[0]
        layers = {int(n.split(".")[2]) for n in found if n.startswith("transformer.resblocks.")}
        end = f"transformer.resblocks.{max(layers)}."
        more = {n: v for n, v in found.items() if n.startswith(end)}
        found |= {
            n.replace(end, f"transformer.resblocks.{max(layers) + 1}."): v.clone()
            for n, v in more.items()
        }
        found["text_projection"] = torch.zeros(width, width, device=value.device)
    return found


def _back(name: str) -> str:
    return name.replace("transformer.resblocks.", "encoder.layers.")


def whole(family: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """All weights of a single file from the models of its parts, which lie in a dict by folder."""
    made = parts["unet"]
    found = _under(UNET, unet(made.state_dict(), made.config["layers_per_block"]))
    levels = len(parts["vae"].config["block_out_channels"])
    found |= _under(VAE, vae(parts["vae"].state_dict(), levels))
    for part, prefix in TEXTS[family].items():
        state = parts[part].state_dict()
        opened = prefix.endswith(".model.")
        text = open_clip(state, last=family == "sd2") if opened else clip(state)
        found |= _under(prefix, text)
    return found


def _under(prefix: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {prefix + name: value for name, value in state.items()}


Shapes = Mapping[str, tuple[int, ...]]


def write_header(
    file: Path, shapes: Shapes, metadata: Mapping[str, str] | None = None, dtype: str = "F16"
) -> Path:
    """A file of real sizes: a header, and a hole where the weights would be."""
    size = {"F16": 2, "BF16": 2, "F32": 4}[dtype]
    told: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, shape in shapes.items():
        count = size
        for side in shape:
            count *= side
        told[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + count]}
        end += count
    text = json.dumps(told).encode()
    with file.open("wb") as opened:
        opened.write(len(text).to_bytes(8, "little") + text)
        opened.truncate(8 + len(text) + end)
    return file


def real_shapes(family: str, configs: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the published checkpoint of a family."""
    import torch
    from diffusers import AutoencoderKL
    from diffusers import UNet2DConditionModel as UNet
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    def config(part: str) -> dict[str, Any]:
        return dict(json.loads((configs / family / f"{part}.json").read_text()))

    with torch.device("meta"):
        parts: dict[str, Any] = {
            "unet": UNet(**config("unet")),
            "vae": AutoencoderKL(**config("vae")),
        }
        for part in TEXTS[family]:
            second = part.endswith("_2")
            kind = CLIPTextModelWithProjection if second else CLIPTextModel
            parts[part] = kind(CLIPTextConfig(**config(part)))
    return {name: tuple(value.shape) for name, value in whole(family, parts).items()}


def small_shapes() -> dict[str, tuple[int, ...]]:
    """What a header of SD 1 has to say at least, at small sizes: for tests that load no weights."""
    blocks = [f"input_blocks.{n}" for n in (1, 2)]
    blocks += [*(f"output_blocks.{n}" for n in (3, 4, 5)), "middle_block"]
    found: dict[str, tuple[int, ...]] = {
        "input_blocks.0.0.weight": (32, 4, 3, 3),
        "input_blocks.3.0.op.weight": (32, 32, 3, 3),
        "input_blocks.5.0.out_layers.3.weight": (64, 64, 3, 3),
        "out.2.weight": (4, 32, 3, 3),
    }
    for n in (1, 4):
        found[f"input_blocks.{n}.0.out_layers.3.weight"] = (32 if n == 1 else 64, 32, 3, 3)
    for block in blocks:
        width = 64 if block == "middle_block" else 32
        found[f"{block}.1.proj_in.weight"] = (width, width, 1, 1)
        for kind, text in (("attn1", width), ("attn2", 48)):
            inner = f"{block}.1.transformer_blocks.0.{kind}"
            found[f"{inner}.to_q.weight"] = found[f"{inner}.to_out.0.weight"] = (width, width)
            found[f"{inner}.to_k.weight"] = found[f"{inner}.to_v.weight"] = (width, text)
    text = {
        "embeddings.token_embedding.weight": (49408, 48),
        "embeddings.position_embedding.weight": (77, 48),
        "encoder.layers.0.mlp.fc1.weight": (96, 48),
    }
    decoder = {"decoder.conv_in.weight": (64, 4, 3, 3)}
    levels = {f"encoder.down.{n}.block.0.conv1.weight": (32, 32, 3, 3) for n in range(4)}
    return {
        **_under(UNET, found),
        **_under(VAE, {**levels, **decoder}),
        **_under(f"{TEXTS['sd1']['text_encoder']}text_model.", text),
    }


_TINY: dict[str, Any] = {
    "sample_size": 64,
    "block_out_channels": (32, 64),
    "layers_per_block": 2,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": 32,
}
TINY: dict[str, dict[str, Any]] = {
    "sd1": {**_TINY, "attention_head_dim": 8},
    "sd2": {**_TINY, "attention_head_dim": (1, 1), "use_linear_projection": True},
    "sdxl": {
        **_TINY,
        "sample_size": 128,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
        "transformer_layers_per_block": (1, 2),
        "cross_attention_dim": 64,
        "attention_head_dim": (1, 1),
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 8,
        "projection_class_embeddings_input_dim": 32 + 6 * 8,
    },
}
"""UNets of the families' own make, with heads and groups as published, as these no shape says."""


def tiny_parts(family: str) -> dict[str, Any]:
    """Small random models of every part, as the published ones are made."""
    import torch
    from diffusers import AutoencoderKL
    from diffusers import UNet2DConditionModel as UNet
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    def text(layers: int, act: str, projected: bool = False) -> Any:
        kind = CLIPTextModelWithProjection if projected else CLIPTextModel
        return kind(
            CLIPTextConfig(
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=layers,
                num_attention_heads=1,
                projection_dim=32,
                hidden_act=act,
            )
        )

    torch.manual_seed(0)
    made: dict[str, Any] = {
        "unet": UNet(**TINY[family]),
        "vae": AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            block_out_channels=(32, 64),
            layers_per_block=1,
            norm_num_groups=32,
            scaling_factor=0.13025 if family == "sdxl" else 0.18215,
        ),
        "text_encoder": text(2, "gelu" if family == "sd2" else "quick_gelu"),
    }
    if family == "sdxl":
        made["text_encoder_2"] = text(3, "gelu", projected=True)
    return made


def tiny_folder(family: str, parts: Mapping[str, Any], folder: Path) -> Path:
    """These models in a diffusers folder, with CLIP's tokenizers and the published scheduler."""
    import diffusers
    from transformers import CLIPTokenizer

    from lorakit.families import clip_vocabulary
    from lorakit.families.shipped import configuration

    clip_vocabulary.write(folder / "vocabulary")

    def tokenizer(pad: str) -> Any:
        return CLIPTokenizer.from_pretrained(folder / "vocabulary", pad_token=pad)

    told = configuration(family, "scheduler")
    more: dict[str, Any] = {"scheduler": getattr(diffusers, told["_class_name"]).from_config(told)}
    more["tokenizer"] = tokenizer("!" if family == "sd2" else clip_vocabulary.END)
    if family == "sdxl":
        more["tokenizer_2"] = tokenizer("!")
        pipe = diffusers.StableDiffusionXLPipeline(**parts, **more)
    else:
        more |= {"safety_checker": None, "feature_extractor": None}
        pipe = diffusers.StableDiffusionPipeline(**parts, **more, requires_safety_checker=False)
    pipe.save_pretrained(folder)
    return folder


def tiny_file(
    family: str, parts: Mapping[str, Any], file: Path, more: Mapping[str, Any] | None = None
) -> Path:
    """These models in one file of the published layout; `more` are further tensors in it."""
    from safetensors.torch import save_file

    weights = {n: v.contiguous() for n, v in whole(family, parts).items()}
    save_file({**weights, **(more or {})}, file, {"format": "pt"})
    return file
