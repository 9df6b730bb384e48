"""Blocks put into networks of torchvision and timm over many families: right, or refused."""

import copy
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

import scalednl
from tests.peers import builders

pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = (1, 3, 64, 64)
CLIP = (1, 3, 4, 32, 32)
Place = str | int | tuple[int, int]


class UNet(nn.Module):
    """Two levels down and up, with a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.pool = nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2)
        self.bottom = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(inplace=True))
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 4, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """A map of scores."""
        skip = self.down(x)
        y = self.up(self.bottom(self.pool(skip)))
        return {"out": self.out(torch.cat([skip, y], 1))}


def _network(name: str) -> nn.Module:
    source, _, model = name.partition("/")
    if source == "own":
        return UNet()
    if source == "timm":
        return builders.timm().create_model(model)
    if source == "features":
        return builders.timm().create_model(model, features_only=True)
    models = builders.torchvision_models()
    if source == "segmentation":
        return getattr(models.segmentation, model)(weights=None, weights_backbone=None)
    network = getattr(models.video if source == "video" else models, model)(num_classes=10)
    if model.startswith("vgg"):
        network.classifier = nn.Linear(512 * 7 * 7, 10)  # instead of 120 million weights
    return network


def _tensors(output: Any) -> list[Tensor]:
    if isinstance(output, dict):
        return list(output.values())
    return output if isinstance(output, list) else [output]


INSERTED: list[tuple[str, Place, tuple[int, ...], str, str, int]] = [
    # name, at, example, layout, names of the new weights, channels
    ("own/unet", "bottom", SMALL, "NCHW", "bottom.nonlocal_", 16),
    ("own/unet", "up", SMALL, "NCHW", "up.nonlocal_", 8),
    ("torchvision/resnet18", 8, SMALL, "NCHW", "layer2.nonlocal_", 128),
    ("torchvision/vgg11", (8, 8), SMALL, "NCHW", "features.14.nonlocal_", 512),
    (
        "torchvision/densenet121",
        "features.denseblock2",
        SMALL,
        "NCHW",
        "features.denseblock2.denselayer12.nonlocal_after_denseblock2",
        512,
    ),
    ("torchvision/mobilenet_v2", 8, SMALL, "NCHW", "features.6.nonlocal_", 32),
    ("torchvision/squeezenet1_1", "features.7", SMALL, "NCHW", "features.7.nonlocal_", 256),
    ("torchvision/shufflenet_v2_x0_5", 8, SMALL, "NCHW", "stage2.nonlocal_", 48),
    ("torchvision/swin_t", "features.3", SMALL, "NHWC", "features.3.nonlocal_", 192),
    (
        "segmentation/lraspp_mobilenet_v3_large",
        "backbone.6",
        SMALL,
        "NCHW",
        "backbone.6.nonlocal_",
        40,
    ),
    (
        "segmentation/deeplabv3_mobilenet_v3_large",
        "classifier.0.convs.4",
        SMALL,
        "NCHW",
        "classifier.0.convs.4.3.nonlocal_after_4",
        256,
    ),
    ("video/r3d_18", "layer2", CLIP, "NCTHW", "layer2.nonlocal_", 128),
    ("video/swin3d_t", "features.0", CLIP, "NTHWC", "features.0.nonlocal_", 96),
    ("timm/convnext_atto", 8, SMALL, "NCHW", "stages.1.nonlocal_", 80),
    ("timm/efficientnet_b0", 8, SMALL, "NCHW", "blocks.2.nonlocal_", 40),
    ("timm/regnety_002", "s2", SMALL, "NCHW", "s2.b1.nonlocal_after_s2", 56),
    ("features/regnety_002", "s3", SMALL, "NCHW", "s3.b4.nonlocal_after_s3", 152),
    (
        "timm/ese_vovnet19b_slim",
        "stages.1.blocks.0.conv_mid",
        SMALL,
        "NCHW",
        "stages.1.blocks.0.conv_mid.2.nonlocal_after_conv_mid",
        352,
    ),
    ("timm/dla34", 8, SMALL, "NCHW", "level3.nonlocal_", 128),
    (
        "timm/hrnet_w18_small",
        "incre_modules.1",
        SMALL,
        "NCHW",
        "incre_modules.1.nonlocal_",
        256,
    ),
    ("timm/mobilenetv3_small_050", 4, SMALL, "NCHW", "blocks.3.nonlocal_", 24),
    ("timm/repvgg_a0", "stages.1", SMALL, "NCHW", "stages.1.nonlocal_", 96),
    ("timm/xcit_nano_12_p16_224", "blocks.3", SMALL, "tokens", "blocks.3.nonlocal_", 128),
    ("timm/pvt_v2_b0", "stages.1.blocks.0", SMALL, "tokens", "stages.1.blocks.0.nonlocal_", 64),
]
FIXED_SIZE: list[tuple[str, str, str, int]] = [
    # name, at, layout, tokens that pass by
    ("timm/vit_tiny_patch16_224", "blocks.2", "tokens", 1),
    ("timm/deit_tiny_distilled_patch16_224", "blocks.2", "tokens", 2),
    ("timm/mixer_s32_224", "blocks.2", "tokens", 0),
    ("timm/swin_tiny_patch4_window7_224", "layers.1", "NHWC", 0),
]
REFUSED: list[tuple[str, str, str]] = [
    ("timm/hrnet_w18_small", "stage3", "gives a list of a tensor of shape"),
    ("timm/levit_128s", "stages.1", "49 is not the number of pixels of any map"),
    ("timm/mixer_s32_224", "blocks.2.mlp_tokens", "512 is not the number of pixels of any map"),
    ("timm/swin_tiny_patch4_window7_224", "layers.1.blocks.0.attn", "need the batch first"),
    ("timm/vit_tiny_patch16_224", "blocks.2.attn.q_norm", "shows whether the channels are"),
    ("segmentation/lraspp_mobilenet_v3_large", "backbone", "an OrderedDict of 'low': a tensor"),
    ("segmentation/lraspp_mobilenet_v3_large", "classifier", "21 channels: heads=4 does not"),
]


def _other_size(example: tuple[int, ...]) -> Tensor:
    return torch.randn(2, *example[1:-2], 96, 64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("case", INSERTED, ids=lambda case: f"{case[0]}-{case[1]}")
def test_inserted(case: tuple[str, Place, tuple[int, ...], str, str, int]) -> None:
    """Identity at the start, one run per call, gradients, old names kept, and other sizes work."""
    name, at, shape, layout, weights, channels = case
    original = _network(name).eval()
    before = original.state_dict()
    example = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    model, report = scalednl.insert_nonlocal(copy.deepcopy(original), at, example=example)
    (place,) = report.insertions
    assert (place.layout, place.weights, place.channels) == (layout, weights, channels)
    assert report.unchanged
    after = model.state_dict()
    assert [key for key in after if not key.startswith(f"{weights}.")] == list(before)

    stack = model.get_submodule(weights)
    ran = Mock(return_value=None)
    handle = stack.register_forward_hook(ran)
    for x in (example, _other_size(shape)):
        with torch.no_grad():
            outputs, expected = _tensors(model(x)), _tensors(original(x))
        for found, truth in zip(outputs, expected, strict=True):
            # Batches of one have ambiguous strides, and other kernels round differently.
            torch.testing.assert_close(
                found, truth, rtol=1e-3, atol=1e-3 * float(truth.abs().max())
            )
    assert ran.call_count == 2
    handle.remove()

    nn.init.ones_(stack.get_parameter("0.norm.weight"))
    outputs = _tensors(model(_other_size(shape)))
    torch.stack([t.square().mean() for t in outputs]).sum().backward()
    for key, parameter in stack.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.any(), key


@pytest.mark.parametrize(("name", "at", "layout", "prefix"), FIXED_SIZE)
def test_networks_of_one_image_size(name: str, at: str, layout: str, prefix: int) -> None:
    """The layout and the class tokens are found although no second size can be tried."""
    model, report = scalednl.insert_nonlocal(_network(name), at)
    (place,) = report.insertions
    assert (place.layout, place.prefix) == (layout, prefix)
    assert report.unchanged
    assert model.get_submodule(place.weights)


@pytest.mark.parametrize(("name", "at", "sentence"), REFUSED)
def test_refused(name: str, at: str, sentence: str) -> None:
    """With what was seen, and without a trace in the model."""
    model = _network(name)
    names = [path for path, _ in model.named_modules()]
    with pytest.raises(ValueError, match=sentence):
        scalednl.insert_nonlocal(model, at)
    assert [path for path, _ in model.named_modules()] == names


def test_several_stages_of_a_resnet() -> None:
    """Each with its own count, in one call."""
    model, report = scalednl.insert_nonlocal(
        _network("torchvision/resnet18"), {"layer2.0": 2, 4: 1}, example=torch.randn(SMALL)
    )
    assert [(i.path, i.count) for i in report.insertions] == [("layer2.0", 2), ("layer3", 1)]
    assert sum(isinstance(m, scalednl.NonLocal2d) for m in model.modules()) == 3
