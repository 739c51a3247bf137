"""`python -m lorakit.train.dryrun BUNDLE`: what a training will hold in memory, as JSON.

The real step on the meta device, where tensors have sizes and no memory, and with it what encodes
pictures and captions before and draws samples on the way. Nothing of the base is loaded: sizes are
those of its configuration, or of its family's published model where the base is not here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lorakit.bundle.models import Bundle, Train
from lorakit.errors import ExitCode, LorakitError
from lorakit.families import residents
from lorakit.train import optim, scratch, sizes
from lorakit.train.families import family_of
from lorakit.train.families.stable_diffusion import StableDiffusion
from lorakit.train.memory import Kernel, LiveStorages, Scratch, attention_of, undisturbed
from lorakit.train.sizes import Sizes
from lorakit.train.step import DTYPES, Batch, Model, Predict, step

Parts = dict[str, int]
"""Bytes by what they are for."""

GIB = 1024**3


def dry_run(
    family: StableDiffusion, shape: Sizes, bundle: Bundle, kernel: Kernel
) -> dict[str, Mapping[str, float]]:
    """The parts at the worst moment of each phase: caching, training, sampling."""
    with undisturbed():
        unet, weights = prepared(family, shape, bundle)
        side = bundle.dataset.resolution // shape.latent_factor
        pictures, captions = (
            read_picture(shape, bundle.dataset.resolution, kernel),
            read_caption(shape),
        )
        whole = training(family, shape, bundle, kernel, unet, weights)
        kept = {p: whole[p] for p in ("base weights", "adapter", "optimizer")}
        memory = bundle.memory
        phases: dict[str, Mapping[str, float]] = {
            "caching": residents.caching(memory, pictures, captions),
            "training": residents.training(memory, whole, kept, pictures, captions),
        }
        if bundle.sample.prompts:
            drawn = sampling(family, shape, bundle, kernel, unet, (side, side))
            staying = residents.resident(memory, pictures, captions)
            vae = {"VAE": drawn["VAE"] + staying.get("VAE", 0)}
            phases["sampling"] = kept | staying | drawn | vae
        return phases


def prepared(
    family: StableDiffusion, shape: Sizes, bundle: Bundle
) -> tuple[Any, list[nn.Parameter]]:
    """A UNet on meta with the bundle's adapter, and the weights of that."""
    unet = sizes.unet(shape.unet, DTYPES[bundle.train.precision], "meta")
    return unet, sizes.attached(family, bundle, unet)


class Step(LiveStorages):
    """Counts one step, from tensors that are there before it."""

    kept = 0
    """Alive when the last forward pass was over."""

    def run(self, model: Model, batch: Batch, accumulating: bool = False) -> None:
        """One step; `accumulating`: that of a later forward pass, which finds gradients there."""

        def predict(*given: Any) -> Tensor:
            answer = model.predict(*given)
            self.forward_is_over()
            return answer

        for weight in model.weights if accumulating else ():
            weight.grad = torch.zeros_like(weight)
            self.see(weight.grad)
        if not accumulating:
            self.watch(model.weights)
        self.gradients = nbytes(w.grad for w in model.weights if w.grad is not None)
        with self:
            step(replace(model, predict=predict), [batch])
        for weight in model.weights:
            weight.grad = None

    def forward_is_over(self) -> None:
        """Note what is alive."""
        self.kept = self.alive


def training(
    family: StableDiffusion,
    shape: Sizes,
    bundle: Bundle,
    kernel: Kernel,
    unet: Any,
    weights: list[nn.Parameter],
) -> Parts:
    """The parts at the peak of a step that is not the first one."""
    side = bundle.dataset.resolution // shape.latent_factor
    dtype = DTYPES[bundle.train.precision]
    model = sizes.model(family, bundle, unet, weights)
    optimizer, counts = primed(bundle.train, weights)
    batch = sizes.batch(shape.unet, bundle.train.batch_size, (side, side), dtype, "meta")
    counted = Step(sizes.held(unet, model, [batch]), scratch_of(kernel))
    with attention_of(kernel):
        counted.run(
            replace(model, optimizer=optimizer), batch, accumulating=bundle.train.accumulation > 1
        )
    adapter = nbytes(weights)
    frozen = nbytes([*unet.parameters(), *unet.buffers()]) - adapter
    before = adapter if bundle.train.accumulation > 1 else 0
    rest = counted.peak - frozen - adapter - counted.peak_gradients
    activations = min(counted.kept - frozen - adapter - before, rest)
    return {
        "base weights": frozen,
        "adapter": adapter,
        "gradients": counted.peak_gradients,
        "optimizer": state_bytes(optimizer, counts),
        "activations": activations,
        "workspace": rest - activations,
    }


def scratch_of(kernel: Kernel) -> Scratch | None:
    """What is known of the scratch memory of kernels; of those of cards nothing is."""
    return scratch.on_cpu if kernel == "cpu" else None


def primed(
    train: Train, weights: Sequence[nn.Parameter]
) -> tuple[torch.optim.Optimizer, dict[nn.Parameter, int]]:
    """An optimizer that has made a step, over one weight of each shape; how many there are of each.

    What it takes for a weight while it works depends on the shape alone, and one is worked on after
    the other.
    """
    shapes = Counter(weight.shape for weight in weights)
    alike = {weight.shape: weight for weight in weights}
    made = optim.optimizer(train, list(alike.values()))
    for weight in alike.values():
        weight.grad = torch.zeros_like(weight)
    made.step()
    made.zero_grad()
    return made, {weight: shapes[shape] for shape, weight in alike.items()}


def state_bytes(made: torch.optim.Optimizer, counts: Mapping[nn.Parameter, int]) -> int:
    """Bytes of an optimizer's state on the device, for so many weights like each of its own."""
    return sum(
        count * nbytes(t for t in made.state[w].values() if isinstance(t, Tensor) and t.is_meta)
        for w, count in counts.items()
    )


@torch.no_grad()
def sampling(
    family: StableDiffusion,
    shape: Sizes,
    bundle: Bundle,
    kernel: Kernel,
    unet: Any,
    size: tuple[int, int],
) -> Parts:
    """What is held beside the UNet while it denoises, and while one picture is decoded."""
    dtype = DTYPES[bundle.train.precision]
    pictures = 2 if bundle.sample.guidance > 1 else 1  # with a prompt, and with the negative one
    denoising, decoding = (LiveStorages(scratch=scratch_of(kernel)) for _ in range(2))
    batch = sizes.batch(shape.unet, pictures, size, dtype, "meta")
    denoise(family.predictor(unet, dtype), batch, kernel, denoising)
    vae = vae_of(shape, torch.float32 if dtype == torch.float16 else dtype)
    decode(vae, size, kernel, decoding)
    activations = max(denoising.peak, decoding.peak)
    return {"VAE": nbytes(vae.parameters()), "activations": activations}


@torch.no_grad()
def denoise(predict: Predict, batch: Batch, kernel: Kernel, counter: LiveStorages) -> None:
    """Count one pass through a UNet that keeps nothing for a backward pass."""
    for tensor in sizes.given(batch):
        counter.see(tensor)
    with attention_of(kernel), counter:
        predict(batch.latents, batch.timesteps, batch.conditions)


@torch.no_grad()
def decode(
    vae: Any, size: tuple[int, int], kernel: Kernel, counter: LiveStorages, pictures: int = 1
) -> None:
    """Count how pictures are made of latents of this height and width."""
    shape = (pictures, vae.config.latent_channels, *size)
    latents = torch.zeros(shape, dtype=vae.dtype, device="meta")
    counter.see(latents)
    with attention_of(_of_vae(kernel)), counter:
        vae.decode(latents)


@torch.no_grad()
def encode(
    vae: Any, size: tuple[int, int], kernel: Kernel, counter: LiveStorages, pictures: int = 1
) -> None:
    """Count how latents are made of pictures of this height and width."""
    picture = torch.zeros((pictures, vae.config.in_channels, *size), dtype=vae.dtype, device="meta")
    counter.see(picture)
    with attention_of(_of_vae(kernel)), counter:
        vae.encode(picture)


@torch.no_grad()
def read_caption(shape: Sizes) -> Parts:
    """All text encoders with one caption, fp32."""
    captions = {"text encoders": 0, "activations": 0}
    for encoder in _texts(shape):
        ids = torch.zeros((1, sizes.TOKENS), dtype=torch.int64, device="meta")
        with LiveStorages([ids]) as counter:
            encoder(ids, output_hidden_states=True)
        captions["text encoders"] += nbytes(encoder.parameters())
        captions["activations"] += counter.peak
    return captions


def read_picture(shape: Sizes, resolution: int, kernel: Kernel) -> Parts:
    """The VAE with one picture, fp32."""
    vae, counter = vae_of(shape, torch.float32), LiveStorages(scratch=scratch_of(kernel))
    encode(vae, (resolution, resolution), kernel, counter)
    return {"VAE": nbytes(vae.parameters()), "activations": counter.peak}


def vae_of(shape: Sizes, dtype: torch.dtype) -> Any:
    """A VAE on meta."""
    from diffusers import AutoencoderKL

    with torch.device("meta"):
        made = AutoencoderKL(**shape.vae)
    return nn.Module.to(made, dtype)  # diffusers' own method warns of nothing


def _of_vae(kernel: Kernel) -> Kernel:
    """Its heads are 512 wide, and the flash kernel takes 256 at most."""
    return "efficient" if kernel == "flash" else kernel


def _texts(shape: Sizes) -> Iterator[Any]:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    for number, config in enumerate(shape.texts):
        kind = CLIPTextModelWithProjection if number else CLIPTextModel
        with torch.device("meta"):
            made = kind(CLIPTextConfig(**config))
        yield made.eval()


def nbytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of tensors that share nothing."""
    return sum(tensor.nbytes for tensor in tensors)


def kernel_on(device: str, bundle: Bundle) -> Kernel:
    """The kernel that attention usually runs on."""
    if device == "cpu":
        return "cpu"
    if device != "cuda":
        return "math"
    lean = bundle.memory.attention == "sdpa" and bundle.train.precision != "fp32"
    return "flash" if lean else "efficient"


def main(argv: list[str]) -> int:
    """Print the phases of a bundle as JSON, in GiB; returns the exit code."""
    from lorakit.bundle.read import read
    from lorakit.families.base_model import inspect

    asked = argparse.ArgumentParser(prog="python -m lorakit.train.dryrun")
    asked.add_argument("bundle", type=Path)
    asked.add_argument("--device", choices=("cuda", "cpu", "mps", "xpu"), default="cuda")
    asked.add_argument("--attention", choices=("flash", "efficient", "cpu", "math"))
    given = asked.parse_args(argv)
    path = given.bundle.resolve()
    try:
        bundle = read(path)
        base = inspect(bundle.base, path.parent)
        kernel = given.attention or kernel_on(given.device, bundle)
        found = dry_run(family_of(bundle), sizes.of(base.family, base.folder), bundle, kernel)
    except LorakitError as error:
        print(f"lorakit: error: {error.message}\n  {error.hint}", file=sys.stderr)
        return int(error.code)
    phases = [
        {"name": name, "parts": [{"name": part, "gib": size / GIB} for part, size in parts.items()]}
        for name, parts in found.items()
    ]
    print(json.dumps({"attention": kernel, "phases": phases}))
    return int(ExitCode.OK)


if __name__ == "__main__":
    from lorakit.train.worker import settle_environment

    settle_environment()
    sys.exit(main(sys.argv[1:]))
