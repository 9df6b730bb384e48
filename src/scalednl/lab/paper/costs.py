"""What a training costs, from its sizes alone: multiply-adds; and the sizes of data sets.

A step is counted as three forward passes: one forward, two for the gradients of inputs and weights.
"""

from functools import lru_cache

from scalednl.config import BlockConfig, StackConfig
from scalednl.lab.config import Experiment
from scalednl.lab.paper.tables import printed
from scalednl.networks import network_shape
from scalednl.ops.costs import BlockState, cost
from scalednl.options import biased, orders_of

PASSES = 3
"""Forward passes that a training step costs"""
CPU_THREAD_RATE = 1.8e10
"""Multiply-adds per second of one thread of a 2.8 GHz Xeon in fp32: `benchmarks/training_loop.py`
measured 16 G with PreResNet-56 and 22 G with PreResNet-20"""


@lru_cache(maxsize=1024)
def multiply_adds(name: str, stack: StackConfig, size: tuple[int, int], classes: int) -> int:
    """Multiply-adds of one forward pass of one image; `size` is its height and width."""
    shape = network_shape(name)
    total = shape.stem_kernel**2 * 3 * shape.stem_channels * size[0] * size[1]
    width = shape.stem_channels
    for index, (depth, planes) in enumerate(zip(shape.depths, shape.planes, strict=True), 1):
        for number in range(depth):
            before = size[0] * size[1]
            if index > 1 and number == 0:
                size = (size[0] + 1) // 2, (size[1] + 1) // 2
            outputs = shape.widths[index - 1]
            total += _residual((width, planes, outputs), before, size[0] * size[1])
            width = outputs
        if index == stack.stage:
            total += stack.count * _attention(stack.block, width, size[0] * size[1])
    return total + width * classes


def _residual(channels: tuple[int, int, int], before: int, after: int) -> int:
    """One residual block from `before` to `after` pixels; a bottleneck if outputs > planes."""
    inputs, planes, outputs = channels
    shortcut = inputs * outputs * after if before != after or inputs != outputs else 0
    if outputs > planes:
        inner = inputs * planes * before + (9 * planes * planes + planes * outputs) * after
    else:
        inner = (9 * inputs * planes + 9 * planes * planes) * after
    return inner + shortcut


def _attention(block: BlockConfig, channels: int, pixels: int) -> int:
    """One non-local block, in the order that it would choose."""
    setting = BlockState(
        channels,
        block.embed_channels or channels,
        block.heads,
        block.attention,
        block.view,
        biased=biased(block.bias),
        batch_norm=False,
        training=False,
        center=block.center,
    )
    order = block.order
    if order == "auto" and block.attention == "softmax":
        order = "fused"
    usable = orders_of(block.attention, block.view, key_pool=block.key_pool)
    orders = [name for name, why_not in usable.items() if not why_not and order in ("auto", name)]
    costs = [cost(name, False, setting, pixels, pixels) for name in orders]
    return min(costs, key=lambda found: found.work).multiply_adds


def training_multiply_adds(experiment: Experiment) -> int:
    """Multiply-adds of all training steps of an experiment."""
    return PASSES * image_multiply_adds(experiment) * train_images(experiment) * experiment.epochs


def image_multiply_adds(experiment: Experiment) -> int:
    """Multiply-adds of one image, forward."""
    options, facts = experiment.generated, experiment.facts
    size = (facts.input_side,) * 2 if options is None else (options.height, options.width)
    return multiply_adds(experiment.model, experiment.stack, size, num_classes(experiment))


def num_classes(experiment: Experiment) -> int:
    """Classes of an experiment's data."""
    options = experiment.generated
    return experiment.facts.classes if options is None else options.classes


def chance_error_pct(experiment: Experiment) -> float:
    """The error of guessing, which is what a diverged training counts as."""
    return 100 * (1 - 1 / num_classes(experiment))


def train_images(experiment: Experiment) -> int:
    """Images of an epoch."""
    options = experiment.generated
    images = experiment.facts.train_images if options is None else options.train_images
    return experiment.limit or images


def paper_gpu_rate() -> float:
    """Multiply-adds per second of the paper's GPU, from Table 3's step without blocks.

    The batch of that step is not printed; it is taken to be the training batch, 128.
    """
    table = printed("table3_heads")
    milliseconds = dict(zip(table["heads"], table["scaled"]["train_step_ms"], strict=True))[0]
    plain = multiply_adds("preresnet56", StackConfig(count=0), (32, 32), 10)
    return PASSES * plain * printed("training")["cifar"]["batch"] / (milliseconds / 1000)
