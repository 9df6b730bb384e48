"""The cost of a run before it is trained."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from scalednl.errors import CommandError, UsageError
from scalednl.lab.config import RunSettings
from scalednl.lab.paper.costs import multiply_adds
from scalednl.lab.training import parts
from scalednl.lab.training import plan as plan_module
from scalednl.lab.training.plan import RunPlan, plan_run
from scalednl.lab.training.setup import initial_model
from tests.lab.training.builders import SETTINGS, SMALL, small


@pytest.fixture(autouse=True)
def _short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "PROBE_SECONDS", 0.05)


@pytest.mark.usefixtures("unchecked_shapes")
def test_counts_are_exact_and_times_follow_the_speed() -> None:
    """Parameters, multiply-adds of an image, steps; seconds are all images over the speed."""
    before = torch.random.get_rng_state()
    found = plan_run(SMALL, SETTINGS)
    network = initial_model(SMALL, 4)
    assert found.parameters == sum(p.numel() for p in network.parameters())
    assert found.multiply_adds == multiply_adds(SMALL.model, SMALL.stack, (16, 16), 4)
    assert found.steps == 5
    assert found.images_per_second > 0
    assert found.seconds == pytest.approx(2 * 150 / found.images_per_second)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.usefixtures("unchecked_shapes")
def test_parts_of_a_batch_need_less_memory() -> None:
    """Only one part is kept for backward at a time; the weights stay, kept ones too."""
    whole, divided = (plan_run(small(accumulate=n), SETTINGS) for n in (1, 4))
    weights = 3 * 4 * whole.parameters / 1e6
    ratio = (divided.memory_mb - weights) / (whole.memory_mb - weights)
    assert ratio == pytest.approx(0.25, abs=0.02)


def test_several_devices_are_refused() -> None:
    """A plan is for one device."""
    with pytest.raises(UsageError, match="leave out --devices"):
        plan_run(SMALL, RunSettings(devices=2))


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_plan_is_of_the_run_that_would_train(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the run's precision, compiler and allocator, and refuses what the run refuses."""
    with pytest.raises(CommandError, match="fp16 training needs a GPU"):
        plan_run(small(precision="fp16"), SETTINGS)
    full, half = (plan_run(small(precision=name), SETTINGS) for name in ("fp32", "bf16"))
    assert half.memory_mb < full.memory_mb
    calls: list[object] = []

    def compiled(network: nn.Module) -> nn.Module:
        calls.append("compiled")
        return network

    monkeypatch.setattr(parts, "keep_memory", calls.append)
    monkeypatch.setattr(torch, "compile", compiled)
    plan_run(SMALL, replace(SETTINGS, compile=True, keep_memory=False))
    assert calls == [False, "compiled"]


def test_a_plan_in_words() -> None:
    """Singular and plural, and the time in two units."""
    found = RunPlan(SMALL, 81620, 1_500_000, 12.3, 1000, 500.0, 3725.0)
    lines = dict(line.split(maxsplit=1) for line in str(found).splitlines())
    assert lines["network"] == "preresnet8, 1 scaled block of 4 heads"
    assert lines["multiply-adds"] == "1.5 M per image, forward"
    assert lines["steps"] == "1,000 per epoch, 2,000 in total"
    assert lines["time"] == "about 1 h 02 min of training, without tests"
    plain = replace(found, experiment=small(blocks=0))
    assert "preresnet8, no blocks" in str(plain)
