"""A disk that is really full in the middle of a run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from trainings import changed

from lorakit.bundle.models import Bundle
from lorakit.bundle.write import write
from lorakit.errors import ExitCode

APART = ["unshare", "--user", "--map-root-user", "--mount"]


def may_mount(folder: Path) -> bool:
    probe = [*APART, "mount", "-t", "tmpfs", "none", str(folder)]
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(probe, capture_output=True, check=False).returncode
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", ["once", "forever", "closed"])
def test_a_full_disk_costs_the_checkpoint_and_nothing_before(
    bundle: Bundle, tmp_path: Path, how: str
) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    if not may_mount(place):
        pytest.skip("this system does not let a user mount a disk of his own")
    # Without a name in the namespace, root is bound by permissions like anyone.
    apart = APART if how != "closed" else ["unshare", "--user"]
    wanted = changed(
        bundle, train={"steps": 7}, sample={"prompts": []}, save={"every": 2, "keep": 1}
    )
    write(tmp_path / "bundle.toml", wanted)
    script = Path(__file__).with_name("full_disk.py")
    ended = subprocess.run(
        [*apart, sys.executable, str(script), str(tmp_path / "bundle.toml"), str(place), how],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["exit_code"] == ExitCode.DATA
    assert told["reasons"] == [
        "Permission denied" if how == "closed" else "No space left on device"
    ]
    assert told["complete_after_failure"][0] == [2]
    assert told["leftovers"] == []
    if how != "forever":
        assert told["failed"] == [4]
        assert told["outcome"] == "done"
        assert told["complete"] == [7]
        assert told["adapters"] == ["tiny.diffusers.safetensors", "tiny.safetensors"]
    else:
        assert told["failed"] == [4, 6, 7]
        assert "The LoRA cannot be written" in told["error"]
        assert told["complete"] == [2]
        assert told["adapters"] == []
