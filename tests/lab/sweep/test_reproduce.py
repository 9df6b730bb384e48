"""Reproducing from a script: what is trained, and whose attention is recorded when."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.errors import CommandError, UsageError
from scalednl.lab import ReproduceOptions
from scalednl.lab import reproduce as reproduce_of_the_lab
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.grids import Artefact, Cell
from scalednl.lab.paper.scales import SCALES, PaperSetting
from scalednl.lab.sweep import reproduce
from scalednl.lab.sweep.reproduce import own_in_tables, plan_reproduction
from scalednl.lab.user_code import load_attention
from tests.lab.training.builders import small
from tests.own_attentions import registered

SCALED, PLAIN = "pairs-scaled-heads-1-allx1-seed0", "pairs-plain-allx1-seed0"


@pytest.fixture(autouse=True)
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Figure 1 of two runs of a second, one with a block, scored on a few images; one of one."""
    cells = tuple(
        Cell(kind, "base", PaperSetting("cifar10", "preresnet56", kind))
        for kind in ("scaled", "plain")
    )
    for name, own in (("little", cells), ("least", cells[:1])):
        monkeypatch.setitem(artefacts(), name, Artefact(name, "", "", own, shows_maps=True))
    changes = {"epochs": 1, "batch": 32, "pairs": small().pairs}
    monkeypatch.setitem(SCALES, "smoke", replace(SCALES["smoke"], seeds=1, changes=changes))
    monkeypatch.setattr(reproduce, "IMAGES", 10)


def test_attention_is_recorded_when_its_run_has_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker of a run records it, without a report too; a lost record is made again."""
    options = ReproduceOptions(out=tmp_path, threads=1, report=False)
    outcome = reproduce_of_the_lab(["little"], options)
    assert set(outcome.finished) == {SCALED, PLAIN}
    assert (outcome.exit_code, outcome.page) == (0, None)
    record = tmp_path / SCALED / "attention" / "attention.json"
    assert json.loads(record.read_text())["images_scored"] == 10
    assert "recording its attention" in (tmp_path / SCALED / "log.txt").read_text()
    assert not (tmp_path / PLAIN / "attention").exists()
    record.unlink()
    trained = (tmp_path / SCALED / "result.json").stat().st_mtime_ns
    capsys.readouterr()
    assert reproduce_of_the_lab(["little"], options).exit_code == 0
    assert record.is_file()
    assert (tmp_path / SCALED / "result.json").stat().st_mtime_ns == trained
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 runs, 1 to do, 1 at a time"
    assert {line.partition(":")[0] for line in lines[1:]} <= {f"[{n}/2] {SCALED}" for n in (1, 2)}
    assert lines[-1].startswith(f"[2/2] {SCALED}: finished")


def test_attention_that_cannot_be_recorded_fails_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run counts as finished, the reason is reported, and the page is written."""
    options = ReproduceOptions(out=tmp_path, threads=1)
    (tmp_path / SCALED).mkdir()
    (tmp_path / SCALED / "attention").write_text("a file where a folder should be")
    outcome = reproduce_of_the_lab(["least"], options)
    assert outcome.finished == (SCALED,)
    assert outcome.page == tmp_path / "report.html"
    assert outcome.page.is_file()
    assert "; its attention could not be recorded: " in capsys.readouterr().out


def test_an_attention_of_a_users_own_is_reproduced(tmp_path: Path) -> None:
    """From a file to the page: trained by a worker, its maps recorded, beside the others."""
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch, scalednl\n"
        "@scalednl.register_attention\n"
        "def tangent(theta, phi):\n"
        "    return torch.tanh(theta @ phi.mT) / phi.shape[-2]\n"
    )
    name = load_attention(file, "tangent")
    options = ReproduceOptions(out=tmp_path / "runs", threads=1, attention=(name,))
    (own,) = own_in_tables([name])
    outcome = reproduce_of_the_lab(["least"], options)
    tangent = SCALED.replace("scaled", "tangent")
    assert set(outcome.finished) == {SCALED, tangent}
    record = json.loads((tmp_path / "runs" / tangent / "attention" / "attention.json").read_text())
    assert record["blocks"][0]["attention"] == "tangent"
    assert record["explorer"]["images"]
    assert outcome.page is not None
    assert tangent in outcome.page.read_text()
    config = json.loads((tmp_path / "runs" / tangent / "config.json").read_text())
    assert config["experiment"]["code"] == [own.code]


def test_attentions_that_cannot_be_added_are_one_sentence() -> None:
    """Names that nobody registered, and the declared plan."""
    with pytest.raises(UsageError, match="--attention sigmoid is no attention of your own: give"):
        own_in_tables(["sigmoid"])
    with registered():
        with pytest.raises(UsageError, match="no attention of your own; did you mean 'sigmoid'"):
            own_in_tables(["sigmoyd"])
        with pytest.raises(UsageError, match="cannot be added to the declared plan"):
            plan_reproduction(["evidence"], ReproduceOptions(attention=("sigmoid",)))


def test_a_part_needs_no_data_of_other_parts(tmp_path: Path) -> None:
    """Table 1 on CIFAR-10 does not ask for CIFAR-100; the page says that it is a part."""
    options = ReproduceOptions(out=tmp_path, threads=1, only=("attention=scaled",))
    outcome = reproduce_of_the_lab(["little"], options)
    assert outcome.finished == (SCALED,)
    lite = ReproduceOptions(scale="lite", root=tmp_path / "data", data="cifar10", seeds=1)
    plan = reproduce.plan_reproduction(["table1"], lite)
    assert {run.experiment.data for run in plan.runs} == {"cifar10"}
    with pytest.raises(CommandError, match="cifar10 is not") as refused:
        reproduce._check_data(plan, lite.root)
    assert "cifar100" not in str(refused.value)
    assert plan.shared == ("--root", str(tmp_path / "data"))
