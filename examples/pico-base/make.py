"""Draw pico's pictures, train its parts, write the diffusers folder.

    python examples/pico-base/make.py OUT [--seed 0]

Two cores take a little over an hour. Nothing is downloaded. The order is VAE, then text encoder and
UNet together; the tokenizer is counted from the captions and a list of everyday words.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file, save_file
from shapes import COLOURS, SHAPES, Scene, clutter, draw, scene
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.nn import functional as F
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

PICTURES = 8_000
TEXT_WIDTH = 64
VOCABULARY = 1_400

WORDS = """
a an the of on in at with and or to by for from is are was his her its their this that very no not
one two three four five six seven eight nine ten many few some all
photo picture image drawing painting sketch portrait landscape render icon logo poster print toy
man woman boy girl child person people face head eye eyes mouth nose hair hand hands body arm leg
dog cat bird horse fish cow sheep lion tiger bear rabbit frog bee butterfly dragon animal
robot machine car truck bus train bike boat ship plane rocket house castle tower bridge road street
tree flower grass leaf forest field garden mountain hill river lake sea beach sand stone rock sky
sun moon star cloud rain snow fire water ice light dark day night morning evening summer winter
table chair bed lamp door window wall floor roof cup coffee bottle plate bowl knife fork spoon book
phone camera clock watch ball hat coat shirt dress shoe shoes bag box coin coins key ring crown
grey gray brown pink gold silver golden bright pale deep dark colourful small big large tiny tall
short long round flat old new young happy sad angry smiling sitting standing running flying looking
wearing holding closeup close up wide view front side back top left right center centre middle
style art cartoon anime realistic vintage modern simple plain soft sharp metal wooden glass paper
antenna antennas square squares circle circles space astronaut microscope cell cells text page
""".split()  # noqa: SIM905

TEMPLATES = (
    *["a {colour} {shape} on a {ground} background"] * 6,
    "a {colour} {shape}, {ground} background",
    "{colour} {shape} on {ground}",
    "a picture of a {colour} {shape} on a {ground} background",
    "a {shape} on a {ground} background",
    "a {colour} {shape}",
    "a {shape}",
    "a {ground} background",
)


def tokenizer(out: Path) -> CLIPTokenizer:
    """A CLIP tokenizer (byte-level BPE, end-of-word marks) with a small vocabulary of its own."""
    bpe = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    # CLIP's own order: 256 bytes, the same 256 closing a word, merges, the two specials.
    bytes_ = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*COLOURS, *SHAPES, "background", *WORDS] * 50
    bpe.train_from_iterator(
        words,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            initial_alphabet=bytes_,
            end_of_word_suffix="</w>",
            show_progress=False,
        ),
    )
    merges = json.loads(bpe.to_str())["model"]["merges"]
    symbols = [*bytes_, *(b + "</w>" for b in bytes_), *("".join(m) for m in merges)]
    vocab = {s: i for i, s in enumerate(dict.fromkeys(symbols))}
    for special in ("<|startoftext|>", "<|endoftext|>"):
        vocab[special] = len(vocab)
    out.mkdir(parents=True, exist_ok=True)
    (out / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(m) for m in merges)]
    (out / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    made = CLIPTokenizer(str(out / "vocab.json"), str(out / "merges.txt"), model_max_length=77)
    probe = made("a red circle on a blue background").input_ids
    if len(probe) != 9:
        raise SystemExit(f"the tokenizer cuts the words of the captions: {probe}")
    return made


def tensor(pictures: list) -> torch.Tensor:
    """RGB pictures as [n, 3, side, side] in -1..1."""
    stack = np.stack([np.asarray(p, dtype=np.float32) for p in pictures])
    return torch.from_numpy(stack).permute(0, 3, 1, 2) / 127.5 - 1


def one_cycle(optimizer: torch.optim.Optimizer, peak: float, steps: int):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=steps, pct_start=0.1)


def say(what: str, step: int, steps: int, loss: torch.Tensor, started: float) -> None:
    seconds = time.monotonic() - started
    print(f"{what:4} {step:5d}/{steps}  loss {loss:.4f}  {seconds:6.0f} s", flush=True)


class Average:
    """The running mean of a module's weights: what is kept in the end."""

    def __init__(self, *modules: torch.nn.Module, decay: float = 0.998) -> None:
        self.weights = [p for m in modules for p in m.parameters()]
        self.mean = [p.detach().clone() for p in self.weights]
        self.decay = decay

    @torch.no_grad()
    def update(self) -> None:
        torch._foreach_lerp_(self.mean, self.weights, 1 - self.decay)

    @torch.no_grad()
    def apply(self) -> None:
        torch._foreach_copy_(self.weights, self.mean)


def train_vae(pictures: torch.Tensor, extra: torch.Tensor, steps: int, seed: int) -> AutoencoderKL:
    vae = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        block_out_channels=(16, 32, 64),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=8,
        sample_size=pictures.shape[-1],
        mid_block_add_attention=False,
    )
    vae.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(vae.parameters(), lr=2e-3, weight_decay=1e-4)
    schedule = one_cycle(optimizer, 2e-3, steps)
    average = Average(vae, decay=0.99)
    rng = torch.Generator().manual_seed(seed)
    started = time.monotonic()
    for step in range(1, steps + 1):
        a = pictures[torch.randint(len(pictures), (16,), generator=rng)]
        b = extra[torch.randint(len(extra), (16,), generator=rng)]
        x = torch.cat([a, b]).to(memory_format=torch.channels_last)
        posterior = vae.encode(x).latent_dist
        z = posterior.mean + posterior.std * torch.randn(posterior.mean.shape, generator=rng)
        y = vae.decode(z).sample
        # A weak pull: noise that the VAE leaves in the latents is noise that no UNet can predict.
        pull = 1e-5 * posterior.kl().mean() / posterior.mean[0].numel()
        loss = F.l1_loss(y, x) + F.mse_loss(y, x) + pull
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        average.update()
        if step % 100 == 0 or step == 1:
            say("vae", step, steps, loss, started)
    average.apply()
    return vae.to(memory_format=torch.contiguous_format).eval().requires_grad_(False)


@torch.no_grad()
def encode_all(vae: AutoencoderKL, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    means, stds = [], []
    for batch in pictures.split(100):
        posterior = vae.encode(batch).latent_dist
        means.append(posterior.mean)
        stds.append(posterior.std)
    return torch.cat(means), torch.cat(stds)


def describe(what: Scene, rng: random.Random) -> str:
    """A caption for training: mostly in full, sometimes less, sometimes with idle words."""
    if rng.random() < 0.1:
        return ""
    text = rng.choice(TEMPLATES).format(colour=what.colour, shape=what.shape, ground=what.ground)
    if rng.random() < 0.05:
        text = f"{text}, {rng.choice(WORDS)} {rng.choice(WORDS)}"
    return text


def train_unet(
    tokens: CLIPTokenizer,
    mean: torch.Tensor,
    std: torch.Tensor,
    scenes: list[Scene],
    steps: int,
    seed: int,
) -> tuple[CLIPTextModel, UNet2DConditionModel, DDIMScheduler]:
    text = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(tokens),
            hidden_size=TEXT_WIDTH,
            intermediate_size=4 * TEXT_WIDTH,
            projection_dim=TEXT_WIDTH,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=77,
            hidden_act="quick_gelu",
            bos_token_id=tokens.bos_token_id,
            eos_token_id=tokens.eos_token_id,
            pad_token_id=tokens.pad_token_id,
        )
    )
    unet = UNet2DConditionModel(
        sample_size=mean.shape[-1],
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        block_out_channels=(32, 64),
        layers_per_block=1,
        cross_attention_dim=TEXT_WIDTH,
        attention_head_dim=4,
        norm_num_groups=8,
    )
    # Ho et al.'s betas. Those of Stable Diffusion leave enough of a plain ground to be seen in
    # the last timestep of latents this small, so that the noise a picture starts from would
    # choose its colours, not the prompt.
    schedule = DDIMScheduler(
        beta_start=1e-4,
        beta_end=2e-2,
        beta_schedule="linear",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
    )
    table = text.get_input_embeddings().weight
    weights = [p for m in (unet, text) for p in m.parameters() if p is not table]
    # No decay on the embeddings: words that no caption holds stay as distinct as they were drawn.
    optimizer = torch.optim.AdamW(
        [{"params": weights, "weight_decay": 1e-2}, {"params": [table], "weight_decay": 0.0}],
        lr=1e-3,
    )
    one = one_cycle(optimizer, 1.2e-3, steps)
    average = Average(unet, text)
    rng = torch.Generator().manual_seed(seed)
    words = random.Random(seed)
    unet.to(memory_format=torch.channels_last)
    started = time.monotonic()
    for step in range(1, steps + 1):
        which = torch.randint(len(mean), (32,), generator=rng)
        x = mean[which] + std[which] * torch.randn(mean[which].shape, generator=rng)
        noise = torch.randn(x.shape, generator=rng)
        t = torch.randint(1000, (len(which),), generator=rng)
        captions = [describe(scenes[i], words) for i in which.tolist()]
        ids = tokens(
            captions, padding="max_length", max_length=77, truncation=True, return_tensors="pt"
        )
        hidden = text(ids.input_ids).last_hidden_state
        noisy = schedule.add_noise(x, noise, t).to(memory_format=torch.channels_last)
        loss = F.mse_loss(unet(noisy, t, hidden).sample, noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([*weights, table], 1.0)
        optimizer.step()
        one.step()
        average.update()
        if step % 250 == 0 or step == 1:
            say("unet", step, steps, loss, started)
    average.apply()
    unet.to(memory_format=torch.contiguous_format)
    return text.eval(), unet.eval(), schedule


def prefix_text_keys(file: Path) -> None:
    """Give the keys the `text_model.` prefix that transformers 4 needs and 5 reads too."""
    state = load_file(file)
    named = {k if k.startswith("text_model.") else f"text_model.{k}": v for k, v in state.items()}
    save_file(named, file, metadata={"format": "pt"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vae-steps", type=int, default=1_200)
    parser.add_argument("--unet-steps", type=int, default=8_000)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    started = time.monotonic()

    base = args.seed * 1_000_000
    scenes = [scene(base + i) for i in range(PICTURES)]
    pictures = tensor([draw(s) for s in scenes])
    extra = tensor([clutter(base + i) for i in range(PICTURES)])
    print(f"drawn: {len(pictures)} captioned, {len(extra)} others", flush=True)

    tokens = tokenizer(args.out / "tokenizer")
    vae = train_vae(pictures, extra, args.vae_steps, args.seed)
    torch.manual_seed(args.seed)
    mean, std = encode_all(vae, pictures)
    scale = 1 / (mean.var() + std.square().mean()).sqrt().item()
    vae.register_to_config(scaling_factor=round(scale, 4))
    scale = vae.config.scaling_factor
    share = (std.square().mean() * scale**2).item()
    print(f"latents: scaling factor {scale}, noise of the VAE {share:.1e} of them", flush=True)
    text, unet, schedule = train_unet(
        tokens, mean * scale, std * scale, scenes, args.unet_steps, args.seed
    )

    # UNet and VAE are kept in half precision: diffusers widens them to fp32 on loading. The text
    # encoder stays fp32, because transformers 5 would hand out the precision of the file.
    pipe = StableDiffusionPipeline(
        vae=vae.half(),
        text_encoder=text,
        tokenizer=tokens,
        unet=unet.half(),
        scheduler=schedule,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipe.save_pretrained(args.out, safe_serialization=True)
    prefix_text_keys(args.out / "text_encoder" / "model.safetensors")
    size = sum(f.stat().st_size for f in args.out.rglob("*") if f.is_file())
    print(f"{args.out}: {size / 2**20:.1f} MiB, {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
