"""Exact global attention over images that are never whole."""

import pytest
import torch
from torch import Tensor, nn

import scalednl
from tests.support import assert_close, assert_close_all, randomise

SHAPE = (2, 8, 12, 10)


def _block(**options: object) -> scalednl.NonLocal2d:
    return randomise(scalednl.NonLocal2d(8, heads=2, **options).double())  # type: ignore[arg-type]


def _tiles(x: Tensor) -> list[Tensor]:
    """x cut into nine tiles of different sizes."""
    return [tile for band in x.split([5, 4, 3], 2) for tile in band.split([1, 7, 2], 3)]


def _joined(tiles: list[Tensor]) -> Tensor:
    return torch.cat([torch.cat(tiles[i : i + 3], 3) for i in (0, 3, 6)], 2)


def _apply(block: scalednl.NonLocal2d, x: Tensor) -> Tensor:
    """The block over x by tiles: all are seen, then each is transformed."""
    moments = scalednl.Moments()
    for tile in _tiles(x):
        moments.update(tile)
    return _joined(
        [
            block.apply_moments(tile, moments, update_norm=index == 0)
            for index, tile in enumerate(_tiles(x))
        ]
    )


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": True}, {"norm": False}, {"norm": False, "bias": True}, {"attention": "mean"}],
    ids=str,
)
def test_tiles_are_cut_out_of_the_whole(options: dict[str, object], training: bool) -> None:
    """z, every gradient and the running statistics equal the whole image's, tile by tile."""
    block, whole = (_block(**options).train(training) for _ in range(2))
    whole.load_state_dict(block.state_dict())
    x = torch.randn(SHAPE, dtype=torch.float64, requires_grad=True)
    grad = torch.randn_like(x)
    results = []
    for weights in (block, whole):
        z = _apply(block, x) if weights is block else whole(x)
        results.append((z, *torch.autograd.grad(z, [x, *weights.parameters()], grad)))
    assert_close_all(results[0], results[1], 1e-9)
    for ours, truth in zip(block.buffers(), whole.buffers(), strict=True):
        assert_close(ours, truth, 1e-10)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": True, "center": "keys+mean"},
        {"center": "keys", "norm": False},
        {"reference_pixels": "running"},
    ],
    ids=str,
)
def test_masked_tiles_are_cut_out_of_the_masked_image(
    options: dict[str, object], training: bool
) -> None:
    """Also where nothing of a tile exists, NaN in the padding reaching no gradient or statistic."""
    block, whole = (_block(**options).train(training) for _ in range(2))
    for weights in (block, whole):
        weights.load_state_dict(block.state_dict())
        if weights.running_pixels is not None:
            weights.running_pixels.fill_(50)
    mask = torch.rand(SHAPE[0], *SHAPE[2:]) > 0.4
    mask[:, :5, 1:8] = False
    mask[0, 9:] = False
    x = torch.randn(SHAPE, dtype=torch.float64).masked_fill(~mask[:, None], torch.nan)
    x.requires_grad_()
    tiles = list(zip(_tiles(x), [m[:, 0] for m in _tiles(mask[:, None])], strict=True))
    moments = scalednl.Moments()
    for tile, part in tiles:
        moments.merge(scalednl.Moments().update(tile, part))
    z = _joined(
        [
            block.apply_moments(tile, moments, mask=part, update_norm=index == 0)
            for index, (tile, part) in enumerate(tiles)
        ]
    )
    results = []
    for found, weights in ((z, block), (whole(x, mask=mask), whole)):
        valid = found.movedim(1, -1)[mask]
        slopes = torch.autograd.grad(valid.square().sum(), [x, *weights.parameters()])
        results.append((valid, *slopes))
    assert_close_all(results[0], results[1], 1e-9)
    for ours, truth in zip(block.buffers(), whole.buffers(), strict=True):
        assert_close(ours.double(), truth.double(), 1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_lower_precision(dtype: torch.dtype) -> None:
    """Tiles in float32 or bfloat16 under autocast give what the whole image gives."""
    block = _block().float().eval()
    x = torch.randn(SHAPE).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        assert_close(_apply(block, x), block(x), 1e-5 if dtype == torch.float32 else 0.02)


def test_a_video_frame_by_frame() -> None:
    """Moments over frames let each frame attend to all frames, as one long map would."""
    block = _block().eval()
    video = torch.randn(1, 8, 5, 4, 6, dtype=torch.float64)
    moments = scalednl.Moments()
    for frame in video.unbind(2):
        moments.update(frame)
    frames = [block.apply_moments(frame, moments) for frame in video.unbind(2)]
    long = torch.cat(video.unbind(2), dim=3)
    assert_close(torch.cat(frames, dim=3), block(long), 1e-10)


@pytest.mark.usefixtures("unchecked_shapes")
def test_what_moments_cannot_do_is_said() -> None:
    """Softmax, views, pooled keys, foreign norms, other shapes: each is refused with its reason."""
    moments = scalednl.Moments().update(torch.randn(SHAPE).double())
    x = torch.randn(SHAPE).double()
    for options, sentence in [
        ({"attention": "softmax"}, "complete row of A"),
        ({"view": "direction"}, "takes a norm at every pixel"),
        ({"key_pool": "before"}, "borders of tiles"),
    ]:
        with pytest.raises(ValueError, match=f"apply_moments cannot be used.*{sentence}"):
            _block(**options).apply_moments(x, moments)
    block = _block()
    block.norm = nn.GroupNorm(2, 8).double()
    with pytest.raises(ValueError, match="needs plain batch norm or none, not GroupNorm"):
        block.apply_moments(x, moments)
    with pytest.raises(ValueError, match=r"shape \(1, 8, 12, 10\) does not fit Moments\(120 pix"):
        _block().apply_moments(x[:1], moments)
