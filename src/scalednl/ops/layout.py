"""How maps are stored and summed: as pixel rows, in their memory layout, in which precision.

Every map is seen as a batch of (pixels x channels) matrices: `x.flatten(2).transpose(1, 2)` is a
view for NCHW and for channels_last memory alike. The products below keep the layout of their rows,
so that a channels_last map comes out channels_last and an NCHW map NCHW, without a copy of either.
Sums over pixels of half-precision maps are taken in float32.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.ops.costs import MIRRORED, bands

Maps = Float[Tensor, "batch channels *space"]
Rows = Float[Tensor, "batch pixels channels"]
HALVES = (torch.float16, torch.bfloat16)


def pixel_count(space: Sequence[int]) -> int:
    """The product of spatial sizes; they may be symbolic."""
    count = 1
    for size in space:
        count = count * size
    return count


def pixel_rows(x: Maps) -> Rows:
    """View `x` as one row of channels per pixel."""
    return x.flatten(2).transpose(1, 2)


def rows_to_maps(rows: Rows, space: Sequence[int]) -> Maps:
    """Undo `pixel_rows` for the given spatial sizes."""
    # Not `transpose` first: a channels_last map of one image would get a batch stride with which
    # torch's batch norm on a CPU computes wrong gradients.
    return rows.unflatten(1, space).movedim(-1, 1)


def dense_rows(rows: Rows) -> Rows:
    """Copy rows that no matrix product can read in place, such as an expanded gradient."""
    return rows if 1 in rows.stride()[1:] else rows.contiguous()


def mix_rows(
    rows: Rows,
    matrix: Float[Tensor, "batch out channels"],
    added: Float[Tensor, "batch out"] | None = None,
) -> Float[Tensor, "batch pixels out"]:
    """Apply one matrix per image to every pixel: row_i -> matrix row_i, in the rows' layout.

    `added` is added to every row of an image.
    """
    added = None if added is None else added.to(rows.dtype)
    if rows.stride(-1) == 1:
        if added is not None:
            return torch.baddbmm(added[:, None], rows, matrix.mT)
        return torch.bmm(rows, matrix.mT)
    if added is not None:
        return torch.baddbmm(added[..., None], matrix, rows.mT).mT
    return torch.bmm(matrix, rows.mT).mT


def add_mixed_(target: Rows, rows: Rows, matrix: Float[Tensor, "batch out channels"]) -> Rows:
    """`target += mix_rows(rows, matrix)` in place, as the accumulator of the product."""
    if target.stride(-1) == 1:
        target.baddbmm_(rows, matrix.mT)
    else:
        target.mT.baddbmm_(matrix, rows.mT)
    return target


def product_over_pixels(
    left: Float[Tensor, "batch pixels left"], right: Float[Tensor, "batch pixels right"]
) -> Float[Tensor, "batch left right"]:
    """left^T right of every image, summed over pixels in float32 where the rows are halves.

    Where the device has no such product, the rows are cast before it.
    """
    if multiplies_into_float32(left, right):
        return torch.bmm(dense_rows(left).mT, dense_rows(right), out_dtype=torch.float32)
    dtype = accumulation_dtype(right.dtype)
    wide = dense_rows(right.to(dtype))
    if left is right:
        return gram_matrices(wide)
    return torch.bmm(dense_rows(left.to(dtype)).mT, wide)


def gram_matrices(rows: Rows) -> Float[Tensor, "batch channels channels"]:
    """x^T x of every image; of many channels only blocks on and above the diagonal are multiplied.

    On a processor alone: a GPU would rather have one launch. Nor where something looks on that
    would have to follow the copies.
    """
    channels = rows.shape[2]
    watched = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    watched = watched or (torch.is_grad_enabled() and rows.requires_grad)
    if watched or channels < MIRRORED or rows.device.type != "cpu":
        return torch.bmm(rows.mT, rows)
    matrices = rows.new_empty(rows.shape[0], channels, channels)
    for start, end in bands(channels):
        band = torch.bmm(rows[..., start:end].mT, rows[..., start:])
        matrices[:, start:end, start:] = band
        matrices[:, end:, start:end] = band[..., end - start :].mT
    return matrices


def multiplies_into_float32(*factors: Tensor) -> bool:
    """Whether torch multiplies these halves into float32 without a cast of either.

    CUDA does since torch 2.8, but that product has no derivative and no rule for vmap, and torch
    2.9 cannot compile it. It refuses the float16 sums that a user may have asked for, and one of
    ROCm's libraries has none.
    """
    dtype = factors[0].dtype
    if dtype not in HALVES or any(t.dtype != dtype or not _on_cuda(t) for t in factors):
        return False
    if torch.is_grad_enabled() and any(t.requires_grad for t in factors):
        return False
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return dtype != torch.float16 or not torch.backends.cuda.matmul.allow_fp16_accumulation


def _on_cuda(t: Tensor) -> bool:
    return t.device.type == "cuda" and torch.version.hip is None


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which sums over pixels are taken: float32 for half precision, else `dtype`."""
    return torch.float32 if dtype in HALVES else dtype


def autocasts(x: Tensor) -> bool:
    """Whether autocast is on for the device of x."""
    device = x.device.type
    return _has_autocast(device) and torch.is_autocast_enabled(device)


def can_be_cast(*dtypes: torch.dtype) -> bool:
    """Whether autocast brings tensors of these dtypes to one."""
    return all(dtype in (torch.float32, *HALVES) for dtype in dtypes)


def _has_autocast(device: str) -> bool:
    return torch.amp.is_autocast_available(device)


# torch 2.8 cannot compile the question itself; `assume_constant_result` would load the compiler.
_has_autocast._dynamo_marked_constant = True  # type: ignore[attr-defined]


def multiplies_in_half(x: Tensor) -> bool:
    """Whether a product with x gives half precision, because x has it or autocast casts it."""
    if x.dtype in HALVES:
        return True
    return (
        x.dtype == torch.float32
        and autocasts(x)
        and torch.get_autocast_dtype(x.device.type) in HALVES
    )


def multiplies_in_fp16(weight: Tensor) -> bool:
    """Whether products with a weight give float16, whose largest number is 65,504."""
    if weight.dtype in HALVES:
        return weight.dtype == torch.float16
    return multiplies_in_half(weight) and torch.get_autocast_dtype(weight.device.type) == (
        torch.float16
    )


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """A context without autocast, for code that chooses its precision itself, on any device.

    Entered only where autocast is on, because an exported graph would keep it as a subgraph.
    """
    return torch.autocast(x.device.type, enabled=False) if autocasts(x) else nullcontext()


def per_image(count: float | Tensor, axes: int) -> float | Tensor:
    """A count per image with `axes` further axes of 1, to multiply or divide what has them."""
    return count.view(-1, *[1] * axes) if isinstance(count, Tensor) else count
