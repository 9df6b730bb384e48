"""One block in every order."""

import pytest

from scalednl.lab.bench import orders
from scalednl.lab.records.bench import OrdersRecord
from tests.lab.bench.builders import Show, Shown


def test_every_method_is_shown(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each map has all six methods, as multiples of the faster associative shape."""
    monkeypatch.setattr(orders, "MAPS", ((2, 16, 6),))
    shown: Shown[OrdersRecord] = show(orders.run)
    rows = {row.method: row for row in shown.record.rows}
    assert tuple(rows) == orders.COMPARED
    shapes = (rows["associative"], rows["associative, rows"])
    assert min(row.time_over_associative for row in shapes) == 1.0
    assert rows["associative"].bytes_kept_over_associative == 1.0
    for row in rows.values():
        assert row.floor is not None
        assert row.floor.work.bytes_moved == 5 * 4 * 2 * 16 * 36
        share = row.floor.milliseconds / row.time.median_ms
        assert row.floor.share == pytest.approx(share, rel=1e-3)
        assert shown.record.origin.allocator is not None
        assert (row.time_default is not None) == (shown.record.origin.allocator.state == "kept")
    assert all(row.error < 1e-5 for row in rows.values())
    assert "B2 C16 6x6" in shown.text
    assert shown.charts == ["orders"]
