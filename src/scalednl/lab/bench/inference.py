"""Inference on one large map, batch norm folded, against the floor of two bare products."""

import torch
from torch import Tensor

from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.agreement import require, sampled_error
from scalednl.lab.bench.measure import Step, inference_step, timings
from scalednl.lab.bench.timing import Timing

CHANNELS, SIDE = 64, 256


def inference_timings(repeats: int, device: str) -> tuple[dict[str, Timing], float]:
    """Times of "auto", "associative" and "floor", and the largest error of the first two."""
    torch.manual_seed(0)
    x = torch.randn(1, CHANNELS, SIDE, SIDE, device=device)
    x = x.to(memory_format=torch.channels_last)
    auto = NonLocal2d(CHANNELS, norm_init=1.0).to(device).eval()
    associative = NonLocal2d(CHANNELS, order="associative").to(device).eval()
    associative.load_state_dict(auto.state_dict())
    blocks = {"auto": auto, "associative": associative}
    error = max(require(sampled_error(b, x), f"{name} at 256x256") for name, b in blocks.items())
    steps: dict[str, Step] = {name: inference_step(block, x) for name, block in blocks.items()}
    steps["floor"] = _two_products(x)
    return timings(steps, repeats, warm_up=3, device=device), error


def _two_products(x: Tensor) -> Step:
    """C x C by C x N, twice: the least that any exact form has to multiply."""
    weight = torch.randn(CHANNELS, CHANNELS, device=x.device)
    columns = x.flatten(2)[0].contiguous()

    def step() -> None:
        torch.mm(weight, columns)
        torch.mm(weight, columns)

    return step
