"""What is known of each family of base models, without torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The facts of one architecture; a base's own configuration files win over them."""

    name: str
    """The value of `base.family`."""
    title: str
    """In words."""
    resolution: int
    """Side of the square pictures it was trained on, in pixels."""
    size_step: int
    """Width and height are multiples of this many pixels."""
    token_limit: int
    """Tokens of a caption that the text encoder reads, without its start and end marks."""
    parts: tuple[str, ...]
    """Folders of a diffusers pipeline that training needs."""
    base_model_version: str
    """`ss_base_model_version` of a LoRA file, read by A1111, Forge and others."""
    architecture: str
    """`modelspec.architecture` of a LoRA file."""
    targets: dict[str, tuple[str, ...]]
    """For each value of `adapter.targets`, the endings of the module names that are adapted."""

    def adapted(self, modules: Iterable[str], targets: str) -> list[str]:
        """Those of a UNet's module names that `targets` means, sorted."""
        endings = tuple(f".{ending}" for ending in self.targets[targets])
        return sorted(m for m in modules if ".attentions." in m and m.endswith(endings))

    def kohya_name(self, module: str) -> str:
        """A UNet module's name in kohya's layout, which A1111, Forge and ComfyUI read."""
        return "lora_unet_" + module.replace(".", "_")


_ATTENTION = ("to_q", "to_k", "to_v", "to_out.0")
_LINEAR = (*_ATTENTION, "ff.net.0.proj", "ff.net.2", "proj_in", "proj_out")


FAMILIES: dict[str, Family] = {
    f.name: f
    for f in (
        Family(
            name="sd1",
            title="Stable Diffusion 1.x",
            resolution=512,
            size_step=64,
            token_limit=75,
            parts=("scheduler", "text_encoder", "tokenizer", "unet", "vae"),
            base_model_version="sd_v1",
            architecture="stable-diffusion-v1/lora",
            targets={"attention": _ATTENTION, "linear": _LINEAR},
        ),
    )
}
