from __future__ import annotations

import pytest

from lorakit.families.families import FAMILIES
from lorakit.families.ldm_names import ldm_name


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("down_blocks.1.attentions.0.proj_in", "input_blocks.4.1.proj_in"),
        ("down_blocks.2.attentions.1.proj_out", "input_blocks.8.1.proj_out"),
        ("mid_block.attentions.0.proj_in", "middle_block.1.proj_in"),
        (
            "up_blocks.1.attentions.2.transformer_blocks.1.attn2.to_out.0",
            "output_blocks.5.1.transformer_blocks.1.attn2.to_out.0",
        ),
    ],
)
def test_layers_are_counted_through(module: str, name: str) -> None:
    assert ldm_name(module) == name


@pytest.mark.parametrize("module", ["conv_in", "down_blocks.0.resnets.0.conv1", "attentions.0"])
def test_what_is_not_attention_has_no_name_here(module: str) -> None:
    with pytest.raises(ValueError, match=module):
        ldm_name(module)


def test_every_family_has_its_own_spelling() -> None:
    module = "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_out.0"
    assert {name: family.kohya_name(module) for name, family in FAMILIES.items()} == {
        "sd1": "lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn1_to_out_0",
        "sd2": "lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn1_to_out_0",
        "sdxl": "lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_out_0",
    }


def test_what_the_notes_of_a_file_say_of_its_base() -> None:
    def notes(name: str, prediction: str) -> tuple[str, str]:
        family = FAMILIES[name]
        return family.base_model_version(prediction), family.architecture(prediction)

    assert notes("sd1", "epsilon") == ("sd_v1", "stable-diffusion-v1/lora")
    assert notes("sd2", "epsilon") == ("sd_v2", "stable-diffusion-v2-512/lora")
    assert notes("sd2", "v_prediction") == ("sd_v2_v", "stable-diffusion-v2-768-v/lora")
    for prediction in ("epsilon", "v_prediction"):
        assert notes("sdxl", prediction) == ("sdxl_base_v1-0", "stable-diffusion-xl-v1-base/lora")
    assert [name for name, family in FAMILIES.items() if family.is_v2] == ["sd2"]
