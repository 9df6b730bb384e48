"""What lengths and directions keep of a block's branch."""

import pytest
import torch

import scalednl
from scalednl.inspection import capture_attention
from scalednl.inspection.view_shares import best_temperatures, branch, kept_by_view
from scalednl.options import Attention, View
from tests.support import assert_close, randomise


@pytest.mark.parametrize("attention", ["scaled", "softmax"])
def test_what_a_view_keeps(attention: Attention) -> None:
    """The branch of a view is the block's with that view; the base keeps all of itself."""
    block = randomise(scalednl.NonLocal2d(8, attention=attention, heads=2, bias=True)).eval()
    x = torch.randn(3, 8, 5, 5)
    views: tuple[View, ...] = ("magnitude", "direction")
    with capture_attention(block) as seen:
        block(x)
    assert torch.allclose(kept_by_view(seen[0], "base"), torch.ones(3).double())
    for view in views:
        other = scalednl.NonLocal2d(
            8, attention=attention, view=view, heads=2, bias=True, norm=False
        )
        other.load_state_dict(block.state_dict(), strict=False)
        assert other.out.bias is not None
        u = other(x) - x - other.out.bias.view(-1, 1, 1)
        assert_close(branch(seen[0], seen[0].attended(view=view)), u.detach(), 1e-5)
        assert ((kept := kept_by_view(seen[0], view)) >= 0).all()
        assert (kept < 1).all()


@pytest.mark.parametrize("attention", ["scaled", "softmax"])
def test_equal_lengths_keep_all_in_their_directions(attention: Attention) -> None:
    """If all embeddings have one length, direction keeps everything.

    Softmax needs another temperature for that: the product of the lengths, per image and head.
    """
    block = scalednl.NonLocal2d(2, attention=attention, heads=1, init="he").eval()
    angle = torch.rand(2, 1, 4, 4) * 6
    with torch.no_grad():
        for conv in (block.theta, block.phi):
            conv.weight.copy_(torch.eye(2)[..., None, None])
    lengths = torch.tensor([3.0, 1.5]).view(2, 1, 1, 1)
    with capture_attention(block) as seen:
        block(lengths * torch.cat([angle.sin(), angle.cos()], 1))
    assert kept_by_view(seen[0], "direction").tolist() == pytest.approx([1, 1], abs=1e-3)
    if attention == "softmax":
        wanted = lengths.flatten() ** 2 * 2**-0.5
        assert best_temperatures(seen[0]).flatten().tolist() == pytest.approx(
            wanted.tolist(), rel=2**0.125 - 1
        )


def test_the_best_temperature_keeps_more() -> None:
    """Softmax over directions keeps more at the best temperature than at the trained one."""
    block = randomise(scalednl.NonLocal2d(8, attention="softmax", heads=1)).eval()
    with capture_attention(block) as seen:
        block(3 * torch.randn(3, 8, 5, 5))
    base, trained = (seen[0].attended(view=view) for view in ("base", "direction"))
    best = best_temperatures(seen[0])
    assert (best > 8**-0.5).all()
    cosine = torch.cosine_similarity(
        branch(seen[0], base).flatten(1), branch(seen[0], trained).flatten(1)
    )
    assert (kept_by_view(seen[0], "direction") > cosine.square()).all()


def test_a_view_is_asked_of_a_base_block() -> None:
    """A block trained with a view is refused by name."""
    block = scalednl.NonLocal2d(8, view="direction")
    with capture_attention(block) as seen:
        block(torch.randn(1, 8, 4, 4))
    with pytest.raises(ValueError, match="trained with view='direction'"):
        kept_by_view(seen[0], "magnitude")
