"""What is known of each family of base models, without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lorakit.families.ldm_names import ldm_name


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
    text: tuple[tuple[str, str], ...]
    """Folders of each tokenizer and its text encoder, in the order of the pipeline."""
    versions: tuple[str, str]
    """`ss_base_model_version` of a LoRA file for a base that predicts the noise, and for one that
    predicts v."""
    architectures: tuple[str, str]
    """`modelspec.architecture` of a LoRA file, for the same two."""
    implementation: str
    """`modelspec.implementation`: whose names of layers a LoRA file has."""
    is_v2: bool = False
    """`ss_v2` of a LoRA file."""
    targets: dict[str, tuple[str, ...]]
    """For each value of `adapter.targets`, the endings of the module names that are adapted."""
    spelling: Callable[[str], str] = str
    """From diffusers' name of a module to the one in kohya's layout, before dots go."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Folders of a diffusers pipeline that training needs, sorted."""
        return tuple(sorted({"scheduler", "unet", "vae", *(p for pair in self.text for p in pair)}))

    def adapted(self, modules: Iterable[str], targets: str) -> list[str]:
        """Those of a UNet's module names that `targets` means, sorted."""
        endings = tuple(f".{ending}" for ending in self.targets[targets])
        return sorted(m for m in modules if ".attentions." in m and m.endswith(endings))

    def kohya_name(self, module: str) -> str:
        """A UNet module's name in kohya's layout, which A1111, Forge and ComfyUI read."""
        return "lora_unet_" + self.spelling(module).replace(".", "_")

    def base_model_version(self, prediction: str) -> str:
        """`ss_base_model_version` of a LoRA file, read by A1111, Forge and others."""
        return self.versions[prediction == "v_prediction"]

    def architecture(self, prediction: str) -> str:
        """`modelspec.architecture` of a LoRA file."""
        return self.architectures[prediction == "v_prediction"]


_ATTENTION = ("to_q", "to_k", "to_v", "to_out.0")
_TARGETS = {
    "attention": _ATTENTION,
    "linear": (*_ATTENTION, "ff.net.0.proj", "ff.net.2", "proj_in", "proj_out"),
}
_FIRST = ("tokenizer", "text_encoder")
_SECOND = ("tokenizer_2", "text_encoder_2")


FAMILIES: dict[str, Family] = {
    f.name: f
    for f in (
        Family(
            name="sd1",
            title="Stable Diffusion 1.x",
            resolution=512,
            size_step=64,
            token_limit=75,
            text=(_FIRST,),
            versions=("sd_v1", "sd_v1_v"),
            architectures=("stable-diffusion-v1/lora",) * 2,
            implementation="diffusers",
            targets=_TARGETS,
        ),
        Family(
            name="sd2",
            title="Stable Diffusion 2.x",
            resolution=512,
            size_step=64,
            token_limit=75,
            text=(_FIRST,),
            versions=("sd_v2", "sd_v2_v"),
            architectures=("stable-diffusion-v2-512/lora", "stable-diffusion-v2-768-v/lora"),
            implementation="diffusers",
            is_v2=True,
            targets=_TARGETS,
        ),
        Family(
            name="sdxl",
            title="Stable Diffusion XL",
            resolution=1024,
            size_step=32,
            token_limit=75,
            text=(_FIRST, _SECOND),
            versions=("sdxl_base_v1-0",) * 2,
            architectures=("stable-diffusion-xl-v1-base/lora",) * 2,
            implementation="https://github.com/Stability-AI/generative-models",
            targets=_TARGETS,
            spelling=ldm_name,
        ),
    )
}
