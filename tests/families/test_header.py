from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorakit.families.header import shapes
from lorakit.families.shipped import ASSETS


def test_shapes_of_pico() -> None:
    found = shapes(ASSETS / "pico" / "unet" / "diffusion_pytorch_model.safetensors")
    assert found["conv_in.weight"] == (32, 4, 3, 3)
    assert found["down_blocks.0.attentions.0.proj_in.bias"] == (32,)
    assert "__metadata__" not in found


@pytest.mark.parametrize("text", ["[]", '{"a": {}}', '{"a": 1}', "[" * 100_000, "{", "\ud800"])
def test_what_is_no_header(text: str, tmp_path: Path) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    (tmp_path / "a").write_bytes(len(raw).to_bytes(8, "little") + raw)
    with pytest.raises(ValueError, match="no safetensors file"):
        shapes(tmp_path / "a")


@given(st.binary() | st.builds(json.dumps, st.dictionaries(st.text(), st.text())).map(str.encode))
def test_any_bytes_have_shapes_or_none(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    file = tmp_path_factory.mktemp("header") / "a"
    for whole in (raw, len(raw).to_bytes(8, "little") + raw):
        file.write_bytes(whole)
        with contextlib.suppress(ValueError):
            assert isinstance(shapes(file), dict)
