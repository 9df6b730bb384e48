"""Other implementations beside ours."""

import pytest
import torch

from benchmarks import peers
from benchmarks.peer_list import PEERS, Peer, TorchAttention
from benchmarks.records import PeersRecord
from scalednl.lab.bench.blocks import features
from tests.lab.bench.builders import Show, Shown


@pytest.mark.filterwarnings("ignore")
def test_peers_are_measured_or_reported_missing(
    show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is not installed has its line; the others have numbers."""
    monkeypatch.setattr(peers, "SETTINGS", ((2, 16, 6),))
    present = [peer for peer in PEERS if peer.package in ("", "mmcv")]
    gone = Peer("Nobody's", "no_such_package_at_all", "none", torch.nn.Identity)
    monkeypatch.setattr(peers, "PEERS", (*present, gone))
    shown: Shown[PeersRecord] = show(peers.run)
    (shape,) = shown.record.shapes
    rows = {row.implementation: row for row in shape.rows}
    assert rows["Nobody's"].missing == "not installed: make peers"
    assert rows["Nobody's"].training is None
    assert "not installed: make peers" in shown.text
    assert (shape.rows[0].attention, shape.rows[0].training_ratio) == ("scaled", 1.0)
    assert float(rows["torch scaled_dot_product_attention"].agreement) < 1e-5
    assert shown.charts == ["peers_6x6"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_runs_and_ours_agrees_where_it_can(peer: Peer) -> None:
    """Each peer takes a map and gives one; converted, it gives the same."""
    if reason := peer.missing():
        pytest.skip(f"{peer.package} is {reason}")
    found = peers.contenders_of(peer, 16, torch.randn(2, 16, 6, 6, requires_grad=True))
    assert len(found) == 1 + peer.converts
    assert all(contender.agreement for contender in found)


def test_torch_attention_is_the_papers_softmax() -> None:
    """What one writes with torch alone gives the paper's softmax attention."""
    peer = next(peer for peer in PEERS if peer.literal is not None)
    module = peer.create(16)
    assert isinstance(module, TorchAttention)
    x, _ = features(2, 16, 5)
    assert peer.literal is not None
    torch.testing.assert_close(module(x), peer.literal(module, x))
