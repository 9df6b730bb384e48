"""Blocks that no package index has, written from their published names and arithmetic."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
POOLS = (nn.MaxPool1d(2), nn.MaxPool2d(2), nn.MaxPool3d((1, 2, 2)))
Weigh = Callable[[Tensor], Tensor]


def softmax(scale: float = 1.0) -> Weigh:
    """softmax over keys of scale * f."""
    return lambda f: (f * scale).softmax(-1)


def over(power: float, width: float = 1.0) -> Weigh:
    """f / (N^power sqrt(width))."""
    return lambda f: f / f.shape[-1] ** power / width**0.5


class NONLocalBlock(nn.Module):
    """Keys g, theta, phi, W, over one to three axes; any function of theta . phi."""

    def __init__(
        self,
        channels: int,
        weigh: Weigh,
        inner: int | None = None,
        dims: int = 2,
        norm: bool = True,
        pool: nn.Module | None = None,
        out: str = "W",
    ) -> None:
        super().__init__()
        inner, conv = inner or channels // 2, CONVS[dims - 1]
        self.weigh, self.out_name = weigh, out
        self.theta = conv(channels, inner, 1)
        self.phi: nn.Module = conv(channels, inner, 1)
        self.g: nn.Module = conv(channels, inner, 1)
        last: nn.Module = conv(inner, channels, 1)
        if norm:
            last = nn.Sequential(last, NORMS[dims - 1](channels))
        setattr(self, out, last)
        if pool is not None:
            self.phi, self.g = nn.Sequential(self.phi, pool), nn.Sequential(self.g, pool)

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        theta, phi, g = (m(x).flatten(2) for m in (self.theta, self.phi, self.g))
        y = g @ self.weigh(theta.mT @ phi).mT
        return getattr(self, self.out_name)(y.unflatten(2, x.shape[2:])) + x


class Nonlocal(nn.Module):
    """Keys conv_theta, conv_phi, conv_g, conv_out, bn over video; keys pooled before phi and g."""

    def __init__(self, channels: int, weigh: Weigh, pool: nn.Module | None) -> None:
        super().__init__()
        inner, self.weigh, self.pool = channels // 2, weigh, pool
        self.conv_theta = nn.Conv3d(channels, inner, 1)
        self.conv_phi = nn.Conv3d(channels, inner, 1)
        self.conv_g = nn.Conv3d(channels, inner, 1)
        self.conv_out = nn.Conv3d(inner, channels, 1)
        self.bn = nn.BatchNorm3d(channels, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        keys = x if self.pool is None else self.pool(x)
        theta = self.conv_theta(x).flatten(2)
        phi, g = self.conv_phi(keys).flatten(2), self.conv_g(keys).flatten(2)
        y = g @ self.weigh(theta.mT @ phi).mT
        return x + self.bn(self.conv_out(y.unflatten(2, x.shape[2:])))


class Authors(nn.Module):
    """Keys theta_conv, pi_conv, g_conv, z_conv, z_bn; several heads, three views."""

    def __init__(self, channels: int, heads: int, weigh: Weigh, view: str = "base") -> None:
        super().__init__()
        self.heads, self.weigh, self.view = heads, weigh, view
        self.theta_conv = nn.Conv2d(channels, channels, 1, bias=False)
        self.pi_conv = nn.Conv2d(channels, channels, 1, bias=False)
        self.g_conv = nn.Conv2d(channels, channels, 1, bias=False)
        self.z_conv = nn.Conv2d(channels, channels, 1, bias=False)
        self.z_bn = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        theta, phi, g = (
            conv(x).flatten(2).unflatten(1, (self.heads, -1))
            for conv in (self.theta_conv, self.pi_conv, self.g_conv)
        )
        if self.view == "magnitude":
            theta, phi = theta.norm(dim=2, keepdim=True), phi.norm(dim=2, keepdim=True)
        if self.view == "direction":
            theta, phi = F.normalize(theta, dim=2), F.normalize(phi, dim=2)
        y = (g @ self.weigh(theta.mT @ phi).mT).flatten(1, 2).unflatten(2, x.shape[2:])
        return x + self.z_bn(self.z_conv(y))


class Bat(nn.Module):
    """Keys t, p, g, z, bn."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.t, self.p, self.g = (nn.Conv2d(channels, channels // 4, 1) for _ in range(3))
        self.z = nn.Conv2d(channels // 4, channels, 1)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        t, p, g = (m(x).flatten(2) for m in (self.t, self.p, self.g))
        a = (t.mT @ p * x.shape[1] ** -0.5).softmax(-1)
        return x + self.bn(self.z((g @ a.mT).unflatten(2, x.shape[2:])))


class PAM(nn.Module):
    """As in SAGAN and DANet: query_conv, key_conv, value_conv and a gamma; no output conv."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.query_conv = nn.Conv2d(channels, channels // 4, 1)
        self.key_conv = nn.Conv2d(channels, channels // 4, 1)
        self.value_conv = nn.Conv2d(channels, channels, 1)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        q, k, v = (m(x).flatten(2) for m in (self.query_conv, self.key_conv, self.value_conv))
        return self.gamma * (v @ (q.mT @ k).softmax(-1).mT).unflatten(2, x.shape[2:]) + x


class CrissCross(PAM):
    """The names of PAM; every pixel looks along its own row."""

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        q, k, v = (m(x).movedim(2, 1) for m in (self.query_conv, self.key_conv, self.value_conv))
        return self.gamma * (v @ (q.mT @ k).softmax(-1).mT).movedim(1, 2) + x


class Attention(nn.Module):
    """As in BigGAN: theta, phi, g, o, gamma; g is wider than theta, keys are pooled in forward."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.theta, self.phi = (nn.Conv2d(channels, channels // 8, 1, bias=False) for _ in range(2))
        self.g = nn.Conv2d(channels, channels // 2, 1, bias=False)
        self.o = nn.Conv2d(channels // 2, channels, 1, bias=False)
        self.gamma = nn.Parameter(torch.tensor(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        theta = self.theta(x).flatten(2)
        phi, g = (F.max_pool2d(m(x), 2).flatten(2) for m in (self.phi, self.g))
        o = self.o((g @ (theta.mT @ phi).softmax(-1).mT).unflatten(2, x.shape[2:]))
        return self.gamma * o + x
