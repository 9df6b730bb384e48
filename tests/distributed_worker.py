"""One rank of the distributed tests; started by torch's own launcher, one process a rank."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

import scalednl
from tests.support import randomise

CHANNELS, HEADS = 8, 2


def make_block(training: bool, **options: object) -> scalednl.NonLocal2d:
    """The same block in every process."""
    torch.manual_seed(0)
    block = scalednl.NonLocal2d(CHANNELS, heads=HEADS, **options)  # type: ignore[arg-type]
    randomise(block.double())
    return block.train(training)


def make_input() -> tuple[torch.Tensor, torch.Tensor]:
    """The same whole image and output gradient in every process."""
    generator = torch.Generator().manual_seed(1)
    x, grad = torch.randn(2, 3, CHANNELS, 10, 6, generator=generator, dtype=torch.float64)
    return x, grad


def rows_of(rank: int, ranks: int) -> slice:
    """The rows of the image that a rank holds; the first one holds the odd ones."""
    cuts = [0, *(10 - 3 * (ranks - 1 - r) for r in range(ranks))]
    return slice(cuts[rank], cuts[rank + 1])


def make_mask() -> torch.Tensor:
    """Which pixels of the images exist: of the first all, of the last only some upper rows."""
    mask = torch.rand(3, 10, 6, generator=torch.Generator().manual_seed(2)) > 0.3
    mask[0], mask[2, 4:] = True, False
    return mask


def run_slab(training: bool, masked: bool = False, **options: object) -> dict[str, torch.Tensor]:
    """Exact global attention over an image whose rows are spread over the ranks."""
    block = make_block(training, **options)
    x, grad = make_input()
    mine = rows_of(dist.get_rank(), dist.get_world_size())
    mask = make_mask()[:, mine] if masked else None
    slab = x[:, :, mine].clone().requires_grad_()
    moments = scalednl.Moments().update(slab, mask).all_reduce()
    z = block.apply_moments(slab, moments, mask=mask)
    z.backward(grad[:, :, mine])
    assert slab.grad is not None
    return {
        "z": z.detach(),
        "dx": slab.grad,
        **{f"d {name}": p.grad for name, p in block.named_parameters() if p.grad is not None},
        **{name: buffer.clone() for name, buffer in block.named_buffers()},
    }


def run_ddp() -> dict[str, torch.Tensor]:
    """Data-parallel training: each rank holds some of the images."""
    block = make_block(training=True)
    assert block.norm is not None
    block.norm.eval()
    model = DistributedDataParallel(block)
    x, grad = make_input()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = x[rank::ranks].clone().requires_grad_()
    model(mine).backward(grad[rank::ranks])
    return {f"d {name}": p.grad for name, p in block.named_parameters() if p.grad is not None}


def run_fsdp() -> dict[str, torch.Tensor]:
    """A block whose parameters are held by FSDP's own flat one, each rank with its images."""
    block = make_block(training=False)
    model = FullyShardedDataParallel(block, device_id=torch.device("cpu"))
    x, _ = make_input()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    z = model(x[rank::ranks])
    z.sum().backward()
    return {"z": z.detach()}


def main() -> None:
    """Run every case and leave one file a rank."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    results = {
        "training": run_slab(training=True),
        "evaluation": run_slab(training=False),
        "bias": run_slab(training=True, bias=True),
        "no norm": run_slab(training=True, norm=False),
        "masked": run_slab(training=True, masked=True),
        "masked evaluation": run_slab(training=False, masked=True, center="keys"),
        "ddp": run_ddp(),
        "fsdp": run_fsdp(),
    }
    torch.save(results, Path(sys.argv[1]) / f"rank{dist.get_rank()}.pt")
    # Everything is stored. Gloo's own threads sometimes abort the process while they are torn down,
    # after all work is done, so it ends without that.
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
