"""The parts of a UNet that gradient checkpointing can compute again, and in which order.

Such a block is a resnet or one block of a transformer. All is counted from the configuration, at
the base's own resolution: what a block keeps for the backward pass unless it recomputes, and what
it computes again if it does. That one comes first which frees most for its work; of equal ones the
earlier, because what is freed there stays free for longer.

Two kinds have no place here. Before the first transformer nothing is trained, so a resnet there
keeps nothing that could be freed. And a transformer that ends the UNet would be computed again
while everything else is still there: counted, leaving it out costs no byte, and saves its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["resnet", "transformer"]

TOKENS = 77
"""Tokens of a caption, start and end included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One block of a UNet that can recompute."""

    name: str
    """As diffusers names the module."""
    kind: Kind
    level: int
    """How often width and height are halved there: at 0 they are those of the latents."""
    flops_share: float
    """What it computes again, as a share of the UNet's whole forward pass."""
    bytes_share: float
    """What it frees, as a share of what all of them free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Resnets at one resolution, with transformers between or behind them or none."""

    name: str
    level: int
    resnets: tuple[tuple[int, int], ...]
    """Channels in and out of each."""
    depths: tuple[int, ...]
    """Blocks of each transformer; empty where there are no transformers."""
    context: int
    """Width of the text that its transformers read."""
    sampled: bool
    """Whether a convolution to the next resolution follows."""


@dataclass(frozen=True, slots=True)
class _Work:
    """What one layer or block does; `kept` and `again` are 0 for what never recomputes."""

    flops: int
    again: int = 0
    """Of these FLOPs, what is computed a second time."""
    kept: int = 0
    """Numbers kept for the backward pass beside its input."""
    name: str = ""
    kind: Kind = "resnet"
    level: int = 0


def count(config: Mapping[str, Any]) -> int:
    """How many blocks of a UNet with this configuration can recompute."""
    return len(units(config))


def units(config: Mapping[str, Any], targets: str = "attention") -> tuple[Unit, ...]:
    """The blocks of a UNet with this configuration, in the order in which they are to recompute.

    The first n of them are what `memory.checkpointing = n` means, all of them are "full". Shares
    and order depend on `targets`, one of the values of `adapter.targets`; the blocks do not.
    """
    walked = list(_walk(config, linear=targets == "linear"))
    blocks = [work for work in walked if work.kept]
    if blocks and blocks[-1].kind == "transformer":
        del blocks[-1]
    flops = sum(work.flops for work in walked)
    kept = sum(work.kept for work in blocks)
    return tuple(
        Unit(
            name=work.name,
            kind=work.kind,
            level=work.level,
            flops_share=work.again / flops,
            bytes_share=work.kept / kept,
        )
        for work in sorted(blocks, key=lambda work: -work.kept / work.again)
    )


def too_many(wanted: int, there: int) -> tuple[str, str]:
    """What is wrong with more blocks than there are, and the way out."""
    return (
        f"memory.checkpointing is {wanted}, and this base has {there} blocks that can recompute.",
        "--set memory.checkpointing=full, which is all of them, or a smaller number",
    )


def stages(config: Mapping[str, Any]) -> list[Stage]:
    """What a UNet with this configuration is made of, in the order in which it computes."""
    widths: list[int] = list(config["block_out_channels"])
    last = len(widths) - 1
    layers = each(config.get("layers_per_block", 2), len(widths))
    depths = each(config.get("transformer_layers_per_block", 1), len(widths))
    rising = config.get("reverse_transformer_layers_per_block") or depths[::-1]
    contexts = each(config["cross_attention_dim"], len(widths))

    def stage(name: str, kind: str, level: int, ins: list[int], depth: Any, more: bool) -> Stage:
        transformers = max(len(ins) - (name == "mid_block"), 0)
        return Stage(
            name=name,
            level=level,
            resnets=tuple((width, widths[level]) for width in ins),
            depths=tuple(each(depth, transformers)) if "CrossAttn" in kind else (),
            context=contexts[level],
            sampled=more,
        )

    made = []
    for level, kind in enumerate(config["down_block_types"]):
        ins = [widths[max(level - 1, 0)], *[widths[level]] * (layers[level] - 1)]
        made.append(stage(f"down_blocks.{level}", kind, level, ins, depths[level], level < last))
    middle = config.get("mid_block_type", "UNetMidBlock2DCrossAttn")
    if middle:
        ins = [widths[last]] * (2 if "CrossAttn" in middle else 1)
        made.append(stage("mid_block", middle, last, ins, depths[last], False))
    for index, kind in enumerate(config["up_block_types"]):
        level = last - index
        below, same, above = widths[min(level + 1, last)], widths[level], widths[max(level - 1, 0)]
        from_below = [below, *[same] * layers[level]]
        from_down = [*[same] * layers[level], above]
        ins = [a + b for a, b in zip(from_below, from_down, strict=True)]
        made.append(stage(f"up_blocks.{index}", kind, level, ins, rising[index], level > 0))
    return made


def _walk(config: Mapping[str, Any], linear: bool) -> Iterator[_Work]:
    """Everything of a UNet that takes FLOPs worth counting, in the order in which it computes."""
    widths = config["block_out_channels"]
    side, time = int(config.get("sample_size") or 64), 4 * widths[0]
    channels = config.get("in_channels", 4) + config.get("out_channels", 4)
    yield _Work(18 * side**2 * channels * widths[0])
    trained = False
    for stage in stages(config):
        pixels = (side >> stage.level) ** 2
        for index, (into, out) in enumerate(stage.resnets):
            name = f"{stage.name}.resnets.{index}"
            yield _resnet(name, stage.level, pixels, into, out, time, trained)
            # In the middle a resnet comes first, and then pairs of a transformer and a resnet.
            depth = stage.depths[index] if index < len(stage.depths) else 0
            if depth:
                trained = True
                yield _Work(4 * pixels * out * out)  # its projections
            for block in range(depth):
                name = f"{stage.name}.attentions.{index}.transformer_blocks.{block}"
                yield _transformer(name, stage.level, pixels, out, stage.context, linear)
        if stage.sampled:
            out = stage.resnets[-1][1]
            there = pixels * 4 if stage.name.startswith("up") else pixels // 4
            yield _Work(18 * there * out * out)


def _resnet(
    name: str, level: int, pixels: int, into: int, out: int, time: int, trained: bool
) -> _Work:
    """Each convolution, SiLU and group norm keeps its input.

    Recomputing ends before the last layer that keeps something: that is the second convolution,
    or the one on the way around, which is there where the channels change.
    """
    first, second, around = 18 * pixels * into * out, 18 * pixels * out * out, into != out
    whole = first + second + 2 * pixels * into * out * around + 2 * time * out
    if not trained:
        return _Work(whole)
    again = first + second * around + 2 * time * out
    return _Work(whole, again, pixels * (2 * into + 3 * out), name, "resnet", level)


def _transformer(
    name: str, level: int, pixels: int, width: int, context: int, linear: bool
) -> _Work:
    """Kept, in widths of a pixel: 7 by self-attention, 4 by cross-attention, 11 by feed-forward.

    A LoRA on the two layers of feed-forward keeps what goes into them, 1 and 4 more. Without it
    recomputing ends before the second. What grows with rank is left out: it is little.
    """
    matrix = 2 * pixels * width * width
    own = 4 * matrix + 4 * pixels * pixels * width
    text = 2 * matrix + 4 * TOKENS * context * width + 4 * pixels * TOKENS * width
    whole = own + text + 12 * matrix
    again = whole if linear else whole - 4 * matrix
    kept = (27 if linear else 22) * pixels * width + 2 * TOKENS * width
    return _Work(whole, again, kept, name, "transformer", level)


def each(value: Any, count: int) -> list[Any]:
    """What a configuration says once for all, or for each."""
    return list(value) if isinstance(value, list | tuple) else [value] * count
