"""Machine files hold what the tools of real machines say, and come back as they were."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_files import FOLDER, machines

from lorakit.bundle.problems import Problem
from lorakit.errors import ExitCode, LorakitError
from lorakit.hardware.facts import (
    Accelerator,
    Hardware,
    Probe,
    Process,
    Speed,
    TorchBuild,
    Tried,
)
from lorakit.hardware.files import load, save

MACHINES = machines()


@pytest.mark.parametrize("name", MACHINES)
def test_machine_files_hold_the_recorded_machines(name: str, tmp_path: Path) -> None:
    save(MACHINES[name], tmp_path / "again.toml")
    again = (tmp_path / "again.toml").read_text()
    assert again == (FOLDER / f"{name}.toml").read_text(), "python tests/hardware/machine_files.py"
    loaded = load(FOLDER / f"{name}.toml")
    assert loaded.device == MACHINES[name].device
    assert loaded.findings == MACHINES[name].findings
    assert [a.uuid for a in loaded.accelerators] == [a.uuid for a in MACHINES[name].accelerators]


def test_every_machine_file_is_recorded() -> None:
    assert {p.stem for p in FOLDER.glob("*.toml")} == set(MACHINES)
    assert len(MACHINES) >= 34


@pytest.mark.parametrize("name", MACHINES)
def test_a_recorded_machine_is_one_that_can_be(name: str) -> None:
    machine = MACHINES[name]
    assert 0 < (machine.ram_free_gib or 0) < (machine.ram_total_gib or 0)
    for card in machine.accelerators:
        assert 0 < (card.memory_free_gib or 0) <= (card.memory_total_gib or 0)
        if card.kind == "cuda":
            assert re.fullmatch(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", card.uuid)
            assert card.capability is not None
            assert card.architecture == "sm_{}{}".format(*card.capability)
        if card.kind != "mps":
            assert re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0", card.pci)
    assert machine.probe is not None
    for tried in machine.probe.devices:
        assert bool(tried.failure) != bool(tried.precisions)
        if tried.kind != "cpu":
            (card,) = [
                a for a in machine.accelerators if (a.uuid, a.pci) == (tried.uuid, tried.pci)
            ]
            assert tried.architecture == card.architecture
            assert (tried.memory_total_gib or 0) <= (card.memory_total_gib or 0)


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBER = st.none() | st.integers(0, 10**9).map(lambda n: n / 1000)
WHOLE = st.integers(0, 2**31)
RATE = st.integers(1, 10**9).map(lambda n: float(f"{n / 10**6:.3g}"))
TABLE = st.dictionaries(TEXT, TEXT, max_size=3)


def tuples(of: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(of, max_size=3).map(tuple)


PROCESSES = st.builds(Process, pid=WHOLE, name=TEXT, memory_gib=NUMBER)
ACCELERATORS = st.builds(
    Accelerator,
    kind=st.sampled_from(["cuda", "rocm", "mps", "xpu"]),
    name=TEXT,
    uuid=TEXT,
    pci=TEXT,
    architecture=TEXT,
    memory_total_gib=NUMBER,
    memory_free_gib=NUMBER,
    unified=st.booleans(),
    integrated=st.booleans(),
    display=st.none() | st.booleans(),
    capability=st.none() | st.tuples(WHOLE, WHOLE),
    power_limit_w=NUMBER,
    visible=st.booleans(),
    processes=tuples(PROCESSES),
)
SPEEDS = st.builds(
    Speed,
    tflops=st.dictionaries(TEXT, RATE, max_size=3),
    bandwidth_gb_s=RATE,
    launch_us=RATE,
)
TRIED = st.builds(
    Tried,
    kind=TEXT,
    name=TEXT,
    failure=TEXT,
    memory_free_gib=NUMBER,
    precisions=tuples(TEXT),
    attention=TEXT,
    modules=TABLE,
    speed=st.none() | SPEEDS,
)
PROBES = st.builds(Probe, devices=tuples(TRIED), architectures=tuples(TEXT), failure=TEXT)
PROBLEMS = st.builds(
    Problem,
    where=TEXT,
    what=TEXT,
    fix=TEXT,
    severity=st.sampled_from(["error", "warning"]),
    line=st.none() | WHOLE,
    code=st.sampled_from(ExitCode),
)
HARDWARE = st.builds(
    Hardware,
    system=TEXT,
    cpu_name=TEXT,
    cpu_threads=WHOLE.filter(bool),
    ram_total_gib=NUMBER,
    driver=st.none() | TEXT,
    torch=st.none() | st.builds(TorchBuild, version=TEXT, cuda=st.none() | TEXT, hip=st.none()),
    accelerators=tuples(ACCELERATORS),
    probe=st.none() | PROBES,
    findings=tuples(PROBLEMS),
)


@given(HARDWARE)
def test_a_saved_machine_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, machine: Hardware
) -> None:
    path = tmp_path_factory.getbasetemp() / "machine.toml"
    save(machine, path)
    assert load(path) == machine


def test_numbers_are_kept_to_three_decimals(tmp_path: Path) -> None:
    save(Hardware(ram_free_gib=1.23456), tmp_path / "m.toml")
    assert load(tmp_path / "m.toml").ram_free_gib == 1.235


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema = 1\ncpu_threads = 'two'\n", "cpu_threads"),
        ("schema = 1\n[[accelerators]]\nkind = 'cuda'\n", "accelerators.0.name"),
        ("cpu_threads = 2\n", "schema = 1"),
        ("schema = 1\ncpu_threads = 0\n", "cpu_threads: 0 is not a number above 0"),
        ("schema = 1\nram_free_gib = nan\n", "ram_free_gib: nan is not"),
        ("schema = 1\nram_free_gib = -2.5\n", "ram_free_gib: -2.5 is not a number 0 or more"),
        (
            "schema = 1\nspeed = {bandwidth_gb_s = 1, launch_us = 1, tflops = {fp32 = 0}}\n",
            "speed.tflops.fp32: 0 is not a number above 0",
        ),
        ("not toml", "cannot be read"),
    ],
)
def test_a_machine_file_that_is_none_is_said_so(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(LorakitError, match=words):
        load(tmp_path / "m.toml")


def test_a_machine_file_that_is_not_there_is_said_once(tmp_path: Path) -> None:
    with pytest.raises(LorakitError) as told:
        load(tmp_path / "m.toml")
    assert told.value.message.endswith("m.toml cannot be read: No such file or directory.")


def test_a_machine_file_of_a_newer_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text("schema = 1\ncpu_threads = 3\nquantum_cores = 1\n")
    assert load(tmp_path / "m.toml").cpu_threads == 3
