"""Pre-activation residual networks: stem, stages of residual blocks, and a stack of attention."""

from collections.abc import Callable, Iterator, Sequence

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from scalednl.blocks import NonLocalBlock
from scalednl.blocks.init import reset_as_made, start
from scalednl.config import ModelConfig, StackConfig
from scalednl.models.stack import make_stack
from scalednl.networks import EXPANSION

Images = Float[Tensor, "batch 3 height width"]
Features = Float[Tensor, "batch channels height width"]


def conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    """A 3x3 convolution without bias that keeps the size, or halves it."""
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    """x + conv(drop(relu(BN(conv(relu(BN(x))))))), two 3x3; a bare 1x1 where shapes change.

    The shortcut takes x itself. With `shared_activation`, as wide networks have it, it takes
    relu(BN(x)) where the width changes. In training, drop sets a share `dropout` of the numbers to
    0 and divides the others by 1 - dropout, as in the paper of wide networks.
    """

    expansion = 1

    def __init__(
        self,
        inputs: int,
        planes: int,
        stride: int,
        shared_activation: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = conv3x3(inputs, planes, stride)
        self.bn2 = nn.BatchNorm2d(planes)
        self.dropout = nn.Dropout(dropout) if dropout else None
        self.conv2 = conv3x3(planes, planes)
        self.shortcut = _shortcut(inputs, planes, stride)
        self.shared_activation = shared_activation

    def forward(self, x: Features) -> Float[Tensor, "batch outputs new_height new_width"]:
        """The block's output."""
        activated = F.relu(self.bn1(x))
        y = F.relu(self.bn2(self.conv1(activated)))
        y = self.conv2(y if self.dropout is None else self.dropout(y))
        if self.shortcut is None:
            return x + y
        return self.shortcut(activated if self.shared_activation else x) + y


class Bottleneck(nn.Module):
    """The same with 1x1, 3x3 and 1x1 convolutions, the last to four times the planes."""

    expansion = EXPANSION

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        outputs = planes * self.expansion
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, planes, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv2 = conv3x3(planes, planes, stride)
        self.bn3 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, outputs, 1, bias=False)
        self.shortcut = _shortcut(inputs, outputs, stride)

    def forward(self, x: Features) -> Float[Tensor, "batch outputs new_height new_width"]:
        """The block's output."""
        y = self.conv1(F.relu(self.bn1(x)))
        y = self.conv2(F.relu(self.bn2(y)))
        y = self.conv3(F.relu(self.bn3(y)))
        return (x if self.shortcut is None else self.shortcut(x)) + y


class ResidualNetwork(nn.Module):
    """Stem, stages, norm, relu, global average, linear; the stack before a stage's last block.

    In a stage of one residual block the stack comes after it. All convolutions and the classifier
    start from He initialisation (fan out), non-local blocks from their own. `config` is what
    `create_model` was asked for, so that a file of weights can say how to make the network again.
    """

    config: ModelConfig | None = None

    def __init__(
        self,
        stem: nn.Conv2d,
        make_block: Callable[[int, int, int], BasicBlock | Bottleneck],
        depths: Sequence[int],
        planes: Sequence[int],
        num_classes: int,
        blocks: StackConfig | None = None,
        position: bool | None = None,
    ) -> None:
        super().__init__()
        self.stem = stem
        width = stem.out_channels
        stages, widths = [], []
        for index, (depth, stage_planes) in enumerate(zip(depths, planes, strict=True)):
            stage = []
            for number in range(depth):
                stride = 2 if index and not number else 1
                stage.append(make_block(width, stage_planes, stride))
                width = stage_planes * stage[-1].expansion
            stages.append(nn.Sequential(*stage))
            widths.append(width)
        self.stages = nn.ModuleList(stages)
        self.norm = nn.BatchNorm2d(width)
        self.classifier = nn.Linear(width, num_classes)
        self._start()

        stack = StackConfig(count=0) if blocks is None else blocks
        if stack.stage > len(stages):
            raise ValueError(
                f"stage={stack.stage} is not there: this network has stages 1 to {len(stages)}"
            )
        self.stack_stage = stack.stage - 1
        self.stack_index = max(1, depths[self.stack_stage] - 1)
        self.stack = make_stack(widths[self.stack_stage], stack.block, stack.count, position)

    def reset_parameters(self) -> None:
        """Start anew: after torch.manual_seed, with the weights of a new network after that seed.

        Also right if the modules inside are reset before or after, then with other draws.
        """
        for module in self._backbone():
            reset_as_made(module)
        self._start()
        for module in () if self.stack is None else self.stack:
            if isinstance(module, NonLocalBlock):
                module.reset_parameters()

    def _start(self) -> None:
        for module in self._backbone():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                start(module, _he)

    def _backbone(self) -> Iterator[nn.Module]:
        """Every module outside the stack, in the order in which they are made."""
        for part in (self.stem, self.stages, self.norm, self.classifier):
            yield from part.modules()

    def forward(self, x: Images) -> Float[Tensor, "batch classes"]:
        """Class scores."""
        return self.classify(self.features(x))

    def features(self, x: Images) -> Float[Tensor, "batch channels map_height map_width"]:
        """The maps before the global average."""
        y = self.before_stack(x)
        return self.after_stack(y if self.stack is None else self.stack(y))

    def before_stack(self, x: Images) -> Float[Tensor, "batch channels map_height map_width"]:
        """The maps that the stack gets."""
        y = self.stem(x)
        for block, is_before in self._blocks():
            y = block(y) if is_before else y
        return y

    def after_stack(self, x: Features) -> Float[Tensor, "batch features map_height map_width"]:
        """The maps before the global average, from what the stack returns."""
        for block, is_before in self._blocks():
            x = x if is_before else block(x)
        return F.relu(self.norm(x))

    def classify(self, maps: Features) -> Float[Tensor, "batch classes"]:
        """Class scores of the maps before the global average."""
        return self.classifier(maps.mean((2, 3)))

    def _blocks(self) -> list[tuple[nn.Module, bool]]:
        """Every residual block in order, and whether it comes before the stack."""
        place = self.stack_stage, self.stack_index
        found = []
        for number, stage in enumerate(self.stages):
            assert isinstance(stage, nn.Sequential)
            found += [(block, (number, index) < place) for index, block in enumerate(stage)]
        return found


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Conv2d | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Conv2d(inputs, outputs, 1, stride, bias=False)


def _he(module: nn.Conv2d | nn.Linear) -> None:
    nn.init.kaiming_normal_(module.weight, mode="fan_out")
    if module.bias is not None:
        nn.init.zeros_(module.bias)
