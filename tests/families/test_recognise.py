"""What files and folders are, by their first bytes and by the names in their headers."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from single_files import Shapes, write_header

from lorakit.families.recognise import Recognised, recognise
from lorakit.families.shipped import ASSETS

UNET = "model.diffusion_model."
CONV = {UNET + "input_blocks.0.0.weight": (320, 4, 3, 3)}
VAE = {"first_stage_model.encoder.conv_in.weight": (128, 3, 3, 3)}


def attends(width: int, linear: bool) -> dict[str, tuple[int, ...]]:
    block = UNET + "input_blocks.1.1."
    return {
        f"{block}proj_in.weight": (320, 320) if linear else (320, 320, 1, 1),
        f"{block}transformer_blocks.0.attn2.to_k.weight": (320, width),
    }


LABELS = {UNET + "label_emb.0.0.weight": (1280, 2816)}
OPEN = "model.transformer.resblocks.0.ln_1.weight"
TEXT = "transformer.text_model.final_layer_norm.weight"
SD1 = {**CONV, **VAE, **attends(768, False), f"cond_stage_model.{TEXT}": (768,)}
SD2 = {**CONV, **VAE, **attends(1024, True), f"cond_stage_model.{OPEN}": (1024,)}
SDXL = {
    **CONV,
    **VAE,
    **attends(2048, True),
    **LABELS,
    f"conditioner.embedders.0.{TEXT}": (768,),
    f"conditioner.embedders.1.{OPEN}": (1280,),
}
REFINER = {
    **CONV,
    **VAE,
    **attends(1280, True),
    UNET + "label_emb.0.0.weight": (1536, 2560),
    f"conditioner.embedders.0.{OPEN}": (1280,),
}


def of(shapes: Shapes, tmp_path: Path, **metadata: str) -> Recognised:
    told = {f"modelspec.{name}": value for name, value in metadata.items()}
    return recognise(write_header(tmp_path / "model.safetensors", shapes, told))


@pytest.mark.parametrize(
    ("shapes", "family", "evidence"),
    [
        (SD1, "sd1", "captions 768 wide, convolutional projections, cond_stage_model.transformer"),
        (SD2, "sd2", "captions 1024 wide, linear projections, cond_stage_model.model"),
        (SDXL, "sdxl", "captions 2048 wide, a label embedding of 2816, conditioner.embedders.0.tr"),
    ],
)
def test_whole_checkpoints(
    shapes: dict[str, tuple[int, ...]], family: str, evidence: str, tmp_path: Path
) -> None:
    found = of(shapes, tmp_path)
    assert (found.kind, found.family, found.problem) == ("checkpoint", family, "")
    assert found.evidence.startswith(evidence)
    assert found.size_bytes == (tmp_path / "model.safetensors").stat().st_size
    assert (found.prediction, found.zero_snr) == ("", False)


@pytest.mark.parametrize(
    ("names", "metadata", "expected"),
    [
        ((), {}, ("", False)),
        (("v_pred",), {}, ("v_prediction", False)),
        (("v_pred", "ztsnr"), {}, ("v_prediction", True)),
        ((), {"predict_key": "v"}, ("v_prediction", False)),
        ((), {"prediction_type": "V"}, ("v_prediction", False)),
        ((), {"prediction_type": "epsilon"}, ("epsilon", False)),
        ((), {"prediction_type": "something"}, ("", False)),
        (("v_pred", "ztsnr"), {"prediction_type": "epsilon"}, ("v_prediction", True)),
    ],
)
def test_files_say_what_they_predict(
    names: tuple[str, ...], metadata: dict[str, str], expected: tuple[str, bool], tmp_path: Path
) -> None:
    """As checkpoints that predict v do: by tensors without numbers, or in their metadata."""
    found = of({**SDXL, **dict.fromkeys(names, (0,))}, tmp_path, **metadata)
    assert (found.prediction, found.zero_snr) == expected
    assert found.problem == ""


def swapped(shapes: Shapes, name: str, shape: tuple[int, ...]) -> Shapes:
    return {**shapes, name: shape}


FIRST = UNET + "input_blocks.0.0.weight"


@pytest.mark.parametrize(
    ("shapes", "kind", "problem"),
    [
        (REFINER, "other", "is SDXL's refiner, which draws over finished pictures"),
        (
            swapped(SD1, FIRST, (320, 9, 3, 3)),
            "other",
            "takes 9 channels, as models for inpainting do, and not 4",
        ),
        (swapped(SDXL, FIRST, (320, 8, 3, 3)), "other", "takes 8 channels"),
        (swapped(SD2, FIRST, (320, 5, 3, 3)), "other", "as models for depth do"),
        ({**SD2, **LABELS}, "other", "is an unCLIP model"),
        ({**SDXL, "edm_mean": (4,), "edm_std": (4,)}, "other", "is Playground 2.5"),
        ({**SDXL, "edm_vpred.sigma_max": (1,)}, "other", "is CosXL"),
        ({**SDXL, UNET + "a.weight.absmax": (9,)}, "other", "holds quantised weights"),
        ({**SDXL, UNET + "scaled_fp8": (0,)}, "other", "holds quantised weights"),
        (
            {**CONV, **attends(768, False)},
            "unet",
            "lacks text_encoder and vae: it holds unet alone",
        ),
        (
            {n: s for n, s in SDXL.items() if not n.startswith("first")},
            "checkpoint",
            "lacks vae: it holds unet, text_encoder and text_encoder_2 alone",
        ),
        (
            {"lora_unet_down_blocks_0_attentions_0_proj_in.lora_down.weight": (16, 320)},
            "lora",
            "is a LoRA, no base model",
        ),
        (
            {"lora_unet_input_blocks_4_1_attn2_to_k.lora_down.weight": (16, 2048)},
            "lora",
            "is a LoRA for Stable Diffusion XL, no base model",
        ),
        (
            {"unet.down_blocks.0.attn2.to_k.lora_A.weight": (16, 768)},
            "lora",
            "is a LoRA for Stable Diffusion 1.x",
        ),
        ({"unet.up.attn2.to_k.lora.down.weight": (4, 1024)}, "lora", "Stable Diffusion 2.x"),
        ({"lycoris_x.lokr_w1": (4, 4)}, "lora", "is a LoRA"),
        (
            {"encoder.down.0.block.0.conv1.weight": (1,), "decoder.conv_in.weight": (1,)},
            "vae",
            "is a VAE alone, no base model",
        ),
        ({"encoder.down_blocks.0.resnets.0.conv1.weight": (1,)}, "vae", "is a VAE alone"),
        ({"text_model.final_layer_norm.weight": (768,)}, "text encoder", "is a text encoder alone"),
        ({"encoder.block.0.layer.0.SelfAttention.k.weight": (9,)}, "text encoder", "is a T5 text"),
        ({"vision_model.pre_layrnorm.weight": (9,)}, "other", "is an image encoder of CLIP"),
        ({"down_blocks.0.resnets.0.conv1.weight": (1,)}, "component", "is a UNet of a diffusers"),
        ({"control_model.input_hint_block.0.weight": (1,)}, "controlnet", "is a ControlNet alone"),
        ({"emb_params": (4, 768)}, "embedding", "is an embedding alone"),
        ({"<my-word>": (768,)}, "embedding", "is an embedding alone"),
        ({UNET + "joint_blocks.0.x_block.attn.qkv.weight": (1,)}, "other", "is Stable Diffusion 3"),
        ({"double_blocks.0.img_attn.qkv.weight": (1,)}, "other", "is Flux, which lorakit does not"),
        ({"a": (1,), "b": (1,)}, "unknown", "holds 2 tensors, and none that was looked for"),
        ({}, "unknown", "holds 0 tensors"),
    ],
)
def test_what_is_no_base_is_named(shapes: Shapes, kind: str, problem: str, tmp_path: Path) -> None:
    found = of(shapes, tmp_path)
    assert found.kind == kind
    assert problem in found.problem
    assert found.problem.startswith("model.safetensors ")
    assert found.problem.endswith(".")
    assert found.problem.count("\n") == 0
    assert found.fix
    assert found.title


def test_a_lora_says_its_family_in_its_metadata(tmp_path: Path) -> None:
    names = {"lora_unet_input_blocks_4_1_proj_in.lora_down.weight": (16, 640)}
    told = {"ss_base_model_version": "sdxl_base_v1-0"}
    assert recognise(write_header(tmp_path / "a", names, told)).family == "sdxl"


# What is no safetensors file at all


def zipped() -> bytes:
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
    return kept.getvalue()


POINTER = (
    b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 6938078\n"
)
BIG = (200_000_000).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("raw", "kind", "problem"),
    [
        (POINTER, "broken", f"is a Git LFS pointer of {len(POINTER)} bytes, not the model itself"),
        (b"<!DOCTYPE html><html>", "broken", "is a web page of 21 bytes, not a model"),
        (b"\xef\xbb\xbf\n <HTML><head>", "broken", "is a web page"),
        (b'{"error":"Invalid username"}', "broken", 'is a server\'s answer, not a model: {"error"'),
        (b"/annex/objects/SHA256E-s6938\n", "broken", "is a git-annex pointer"),
        (b"", "broken", "is empty"),
        (b"x", "broken", "is no safetensors file"),
        (zipped(), "pickle", "is a zip checkpoint (pickled weights), not safetensors"),
        (pickle.dumps({}, 2), "pickle", "is a pickle checkpoint (pickled weights)"),
        (b"GGUF" + bytes(100), "broken", "is a GGUF file"),
        (b"\xff" * 100, "broken", "would mean a header of"),
        (BIG + b"x" * 100, "broken", "would mean a header of 200 MB, and 100 MB is the limit"),
        ((4).to_bytes(8, "little") + b"[[[]" + bytes(9), "broken", "its header cannot be read"),
        ((9000).to_bytes(8, "little") + b'{"a":', "broken", "its header alone has 9 kB, and the"),
    ],
)
def test_what_is_no_safetensors_file_is_named(
    raw: bytes, kind: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "model.safetensors").write_bytes(raw)
    found = recognise(tmp_path / "model.safetensors")
    assert (found.kind, found.size_bytes) == (kind, len(raw))
    assert found.problem.startswith("model.safetensors ")
    assert problem in found.problem
    assert found.fix


def test_a_file_cut_short_says_both_sizes(tmp_path: Path) -> None:
    """SDXL in half: 6.9 GB are promised."""
    shapes = {**SDXL, UNET + "rest": (6_900_000_000 // 2,)}
    file = write_header(tmp_path / "model.safetensors", shapes)
    with file.open("r+b") as opened:
        opened.truncate(3_400_000_000)
    found = recognise(file)
    assert found.problem == (
        "model.safetensors is cut short: its header promises 6.9 GB, the file has 3.4 GB."
    )
    assert found.fix == "Download it again."


def test_one_byte_more_or_less_is_seen(tmp_path: Path) -> None:
    file = write_header(tmp_path / "model.safetensors", SD1)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert (
        f"promises {len(whole):,} bytes, the file has {len(whole) - 1:,}" in recognise(file).problem
    )
    file.write_bytes(whole + b"\0")
    assert "is damaged: 1 byte more than its header promises" in recognise(file).problem


def test_a_pointer_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(POINTER)
    assert "`git lfs pull`" in recognise(tmp_path / "a").fix


def test_nothing_and_folders(tmp_path: Path) -> None:
    assert recognise(tmp_path / "none").problem == "none is not there."
    assert recognise(tmp_path).kind == "unknown"
    assert "no model_index.json" in recognise(tmp_path).problem


def test_a_diffusers_folder(tmp_path: Path) -> None:
    found = recognise(ASSETS / "pico")
    assert (found.kind, found.family, found.prediction) == ("pipeline", "sd1", "epsilon")
    assert found.problem == ""
    folder = Path(shutil.copytree(ASSETS / "pico", tmp_path / "copy"))
    told = folder / "scheduler" / "scheduler_config.json"
    v = {"prediction_type": "v_prediction", "rescale_betas_zero_snr": True}
    told.write_text(json.dumps({**json.loads(told.read_text()), **v}))
    (folder / "vae" / "diffusion_pytorch_model.safetensors").unlink()
    found = recognise(folder)
    assert (found.prediction, found.zero_snr) == ("v_prediction", True)
    assert found.problem == "copy has no weights in vae."


JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)
)


@given(
    st.binary()
    | st.builds(json.dumps, JSON).map(str.encode)
    | st.builds(
        lambda names: json.dumps(
            {n: {"dtype": "F16", "shape": s, "data_offsets": [0, 0]} for n, s in names.items()}
        ).encode(),
        st.dictionaries(st.sampled_from(sorted({*SD1, *SDXL})), st.lists(st.integers(0, 9))),
    )
)
def test_any_bytes_are_something(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    file = tmp_path_factory.mktemp("any") / "a"
    for whole in (raw, len(raw).to_bytes(8, "little") + raw):
        file.write_bytes(whole)
        found = recognise(file)
        assert found.kind
        assert found.problem or found.family


def test_a_large_header_takes_a_fraction_of_a_second(tmp_path: Path) -> None:
    """Ten times the tensors of SDXL."""
    more = {f"{UNET}input_blocks.9.{n}.weight": (320, 320) for n in range(25_000)}
    file = write_header(tmp_path / "model.safetensors", {**SDXL, **more})
    begun = time.process_time()
    assert recognise(file).family == "sdxl"
    assert time.process_time() - begun < 1
