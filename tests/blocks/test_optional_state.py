"""State that only some variants have: a learned temperature, and the running number of pixels."""

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import scalednl
from scalednl.blocks.optional_state import count_keys, note_pixels
from scalednl.ops.planner import Choice
from tests.support import assert_close, force, randomise

CHOICES = [Choice("gram", True), Choice("gram"), Choice("associative"), Choice("quadratic")]


def _running(**options: Any) -> scalednl.NonLocal2d:
    block = scalednl.NonLocal2d(6, heads=2, reference_pixels="running", **options)
    return randomise(block.double())


def _seen(block: scalednl.NonLocal2d) -> float:
    assert block.running_pixels is not None
    return block.running_pixels.item()


def test_a_learned_temperature_is_never_lost_silently() -> None:
    """Dropping it between softmax blocks warns; into a scaled block it has no meaning."""
    learned = scalednl.NonLocal2d(8, attention="softmax", softmax_scale="learned")
    with pytest.warns(UserWarning, match="log_softmax_scale is dropped"):
        scalednl.NonLocal2d(8, attention="softmax").load_state_dict(learned.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scalednl.NonLocal2d(8).load_state_dict(learned.state_dict())
        learned.load_state_dict(scalednl.NonLocal2d(8).state_dict())
    with torch.device("meta"):
        unborn = scalednl.NonLocal2d(8, attention="softmax", softmax_scale="learned")
    with pytest.raises(RuntimeError, match="log_softmax_scale"):
        unborn.load_state_dict(scalednl.NonLocal2d(8).state_dict(), assign=True)


def test_the_running_number_of_pixels() -> None:
    """The first batch sets it, later ones move it by a tenth."""
    running = torch.zeros(())
    found = []
    for keys in (100, 200, 200, 115, 115):
        note_pixels(running, keys)
        found.append(running.item())
    assert found == pytest.approx([100, 110, 119, 118.6, 118.24])
    for _ in range(300):
        note_pixels(running, 115)
    assert running.item() == pytest.approx(115, rel=1e-6)


def test_averaged_weights_have_the_average_count() -> None:
    """A moving average of all buffers, as of weights, follows it; a whole number would stand."""
    block = scalednl.NonLocal2d(6, heads=2, reference_pixels="running")
    average = get_ema_multi_avg_fn(0.99)
    copied = AveragedModel(block, multi_avg_fn=average, use_buffers=True)
    for step in range(1000):
        block(torch.randn(2, 6, 4, 4 + 4 * (step % 2)))
        copied.update_parameters(block)
    averaged = copied.module
    assert isinstance(averaged, scalednl.NonLocal2d)
    assert _seen(averaged) == pytest.approx(24, abs=1)


def test_masked_images_are_averaged() -> None:
    """Images without keys do not count, and a batch of them, or of no images, changes nothing."""
    running = torch.zeros(())
    for nothing in (torch.zeros(3), torch.zeros(0)):
        note_pixels(running, nothing)
        assert running.item() == 0
    note_pixels(running, torch.tensor([30, 0, 50]))
    assert running.item() == 40
    for nothing in (torch.zeros(3), torch.zeros(0)):
        note_pixels(running, nothing)
        assert running.item() == 40


def test_keys_are_counted_as_they_are_attended_to() -> None:
    """Pooled ones after pooling, masked ones image by image."""
    mask = torch.zeros(2, 5, 7, dtype=torch.bool)
    mask[1, 2:4] = True
    assert count_keys((2, 6, 5, 7), (1, 1), None) == 35
    assert count_keys((2, 6, 5, 7), (2, 2), None) == 6
    assert count_keys((2, 6, 5, 7), (1, 3), None) == 10
    found = count_keys((2, 6, 5, 7), (1, 1), mask)
    assert isinstance(found, Tensor)
    assert found.tolist() == [0, 14]


def test_a_block_counts_in_training_alone() -> None:
    """x, other keys and masks are counted in training; evaluation changes nothing."""
    block = _running()
    x, mask = torch.randn(2, 6, 4, 5).double(), torch.zeros(2, 4, 5, dtype=torch.bool)
    block(x)
    assert _seen(block) == 20
    block(x, keys=torch.randn(2, 6, 8, 5).double())
    assert _seen(block) == 22
    mask[0, :, 0] = True
    block(x, mask=mask)
    assert _seen(block) == pytest.approx(20.2)
    block(x, mask=torch.zeros_like(mask))
    block(x[:0], mask=mask[:0])
    block.eval()(x[:, :, :1])
    assert _seen(block) == pytest.approx(20.2)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_the_factor_is_the_papers_where_the_size_is(choice: Choice) -> None:
    """In training, and in evaluation at the training size; larger maps have a smaller branch."""
    block, paper = (
        force(b, choice) for b in (_running(), scalednl.NonLocal2d(6, heads=2).double())
    )
    with pytest.warns(UserWarning, match="running_pixels is dropped"):
        paper.load_state_dict(block.state_dict())
    x = torch.randn(2, 6, 4, 5, dtype=torch.float64)
    assert_close(block(x), paper(x), 1e-12)
    assert_close(block.eval()(x), paper.eval()(x), 1e-12)
    block.norm = paper.norm = None
    larger = torch.randn(2, 6, 8, 10, dtype=torch.float64)
    assert_close(block(larger) - larger, (paper(larger) - larger) / 2, 1e-10)


def test_half_precision_keeps_the_count() -> None:
    """300,000 pixels are not a float16; after .half() the count stays, and evaluation is finite."""
    block = _running(norm=False)
    assert block.running_pixels is not None
    block.running_pixels.fill_(300_000)
    x = torch.randn(2, 6, 4, 5).double()
    truth = copy.deepcopy(block).eval()(x)
    half = block.half().eval()
    assert _seen(half) == 300_000
    assert _seen(copy.deepcopy(half).bfloat16().double()) == 300_000
    for order in ("gram", "associative"):
        half.order = order
        assert_close(half(x.half()).double(), truth, 0.02)


@pytest.mark.parametrize("assign", [False, True])
def test_a_whole_number_of_older_files_becomes_a_mean(assign: bool) -> None:
    """Steps of a tenth of the way would be rounded away in an integer."""
    block = scalednl.NonLocal2d(6, heads=2, reference_pixels="running")
    older = {**block.state_dict(), "running_pixels": torch.tensor(16)}
    block.load_state_dict(older, assign=assign)
    for _ in range(100):
        block(torch.randn(2, 6, 5, 5))
    assert _seen(block) == pytest.approx(25, abs=0.01)


def test_a_count_moves_between_blocks_that_have_one() -> None:
    """It is in the state_dict; without one given a block keeps its own, and no loss is silent."""
    block, other = _running(), _running()
    block(torch.randn(2, 6, 4, 5).double())
    other.load_state_dict(block.state_dict())
    assert _seen(other) == 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.load_state_dict(scalednl.NonLocal2d(6, heads=2).state_dict())
        scalednl.NonLocal2d(6, heads=2, attention="mean").load_state_dict(block.state_dict())
    assert _seen(other) == 20
    fixed = scalednl.NonLocal2d(6, heads=2, reference_pixels=9)
    with pytest.warns(UserWarning, match="running_pixels is dropped: .* reference_pixels=9, not"):
        fixed.load_state_dict(block.state_dict())
    block.reset_parameters()
    assert _seen(block) == 0
