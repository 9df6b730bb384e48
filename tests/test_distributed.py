"""Attention over an image spread over real processes, and data-parallel training."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.distributed_worker import make_block, make_input, make_mask, rows_of
from tests.support import assert_close

RANKS = 2
ROOT = Path(__file__).parents[1]
Results = list[dict[str, dict[str, Tensor]]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What two gloo processes computed, one entry a rank."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "MASTER_PORT")}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={RANKS}", "-m", "tests.distributed_worker", str(folder)]
    run = subprocess.run(
        command,
        cwd=ROOT,
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return [torch.load(folder / f"rank{r}.pt", weights_only=True) for r in range(RANKS)]


@pytest.mark.parametrize(
    ("case", "options"),
    [
        ("training", {}),
        ("evaluation", {}),
        ("bias", {"bias": True}),
        ("no norm", {"norm": False}),
        ("masked", {}),
        ("masked evaluation", {"center": "keys"}),
    ],
)
def test_slabs_on_ranks_are_the_whole_image(
    results: Results, case: str, options: dict[str, object]
) -> None:
    """Each rank's z and dx are its rows of the one-process result; weight gradients add up to it.

    In training the ranks' batch norm statistics are those of the whole image too.
    """
    block = make_block(training="evaluation" not in case, **options)
    x, grad = make_input()
    x.requires_grad_()
    z = block(x, mask=make_mask() if "masked" in case else None)
    z.backward(grad)
    assert x.grad is not None
    for rank, found in enumerate(results):
        mine = rows_of(rank, RANKS)
        assert_close(found[case]["z"], z[:, :, mine], 1e-10, "z")
        assert_close(found[case]["dx"], x.grad[:, :, mine], 1e-10, "dx")
        for name, buffer in block.named_buffers():
            assert_close(found[case][name], buffer, 1e-10, name)
    for name, parameter in block.named_parameters():
        assert parameter.grad is not None
        total = torch.stack([found[case][f"d {name}"] for found in results]).sum(0)
        assert_close(total, parameter.grad, 1e-9, name)


def test_ddp_averages_the_gradients_of_the_joined_batch(results: Results) -> None:
    """DistributedDataParallel over images gives the one-process gradient divided by the ranks."""
    block = make_block(training=True)
    assert block.norm is not None
    block.norm.eval()
    x, grad = make_input()
    block(x).backward(grad)
    for name, parameter in block.named_parameters():
        assert parameter.grad is not None
        for found in results:
            assert_close(found["ddp"][f"d {name}"] * RANKS, parameter.grad, 1e-9, name)


def test_fsdp_holds_the_parameters(results: Results) -> None:
    """Wrapped with FSDP's defaults, which leave a block without parameters, it computes its own."""
    block = make_block(training=False)
    x, _ = make_input()
    for rank, found in enumerate(results):
        assert_close(found["fsdp"]["z"], block(x[rank::RANKS]), 1e-10)
