"""What every benchmark fixes, notices and writes."""

from pathlib import Path

import pytest
import torch

from scalednl.errors import UsageError
from scalednl.lab import machine
from scalednl.lab.bench import session
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.session import Session, slug
from scalednl.lab.records.bench import BlocksRecord, BlocksRow, BlocksSettings
from scalednl.lab.records.floor import MachineLimit


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_there_is_named() -> None:
    """--device cuda without a GPU is refused in one sentence."""
    with pytest.raises(UsageError, match="--device cuda: torch finds no GPU here; use cpu"):
        Session("orders", BenchOptions(device="cuda"))


def test_a_gpu_computes_in_float32_and_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """TF32 is off in products and convolutions alike, and the record has the GPU's name."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU of {device}")
    monkeypatch.setattr(session, "machine_limit", lambda _: MachineLimit(1e12, 1e11))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        made = Session("orders", BenchOptions(device="cuda:1"))
        assert torch.get_float32_matmul_precision() == "highest"
    finally:
        torch.set_float32_matmul_precision(before)
    assert not torch.backends.cudnn.allow_tf32
    assert made.header()["gpu"] == "GPU of cuda:1"
    assert "GPU of cuda:1" in capsys.readouterr().out


def test_a_processor_makes_a_file_name() -> None:
    """Trade marks and punctuation are left out."""
    assert slug("Intel(R) Xeon(R) Processor @ 2.80GHz") == "intel-xeon-2.80ghz"
    assert slug("AMD EPYC 7763 64-Core Processor") == "amd-epyc-7763-64-core"
    assert slug("") == "unknown"


def test_waiting_for_a_core_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The share of time in which others had the core is recorded, and a large one is reported."""
    seconds = iter([(10.0, 1.0), (13.0, 2.0)])
    monkeypatch.setattr(session, "core_seconds", lambda: next(seconds))
    monkeypatch.setattr(machine, "core_seconds", lambda: next(seconds))
    measuring = Session("blocks", BenchOptions(out=tmp_path))
    record = BlocksRecord(
        **measuring.header(),
        settings=BlocksSettings("", 5),
        rows=(BlocksRow("auto", 1.0, 1, 0.0),),
    )
    assert record.waited == 0.25
    assert record.is_disturbed
    measuring.finish(record, {})
    said = " ".join(capsys.readouterr().err.split())
    assert "The machine was busy: threads waited for a core 25%" in said
