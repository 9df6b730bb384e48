"""What survives in half precision."""

import math
from contextlib import redirect_stdout
from io import StringIO

import pytest
import torch

from benchmarks import half_precision
from benchmarks.half_precision import METHODS, Case, Method, checked, exact, measured, results
from benchmarks.records import HalfInput, HalfPrecisionRecord, HalfRow
from scalednl.errors import CommandError
from tests.lab.bench.builders import run_benchmark

TINY = HalfInput(2, 8, 4, "after ReLU")
BY_NAME = {method.name: method for method in METHODS}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> HalfPrecisionRecord:
    """Two methods on a tiny map."""
    methods = tuple(BY_NAME[name] for name in ("scaled, auto", "scaled, associative"))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr(half_precision, "METHODS", methods)
        patch.setattr(half_precision, "QUICK", TINY)
        out = tmp_path_factory.mktemp("half") / "results"
        found, _ = run_benchmark(out, half_precision.run)
    assert "z not finite" in printed.getvalue()
    return found


def _float16(record: HalfPrecisionRecord, method: str) -> HalfRow:
    """The row of float16 training under autocast without a loss scale."""
    (row,) = (
        row
        for row in record.rows
        if row.method == method
        and (row.setting.dtype, row.setting.precision) == ("float16", "autocast")
        and row.setting.training
        and row.setting.loss_scale == 1
    )
    return row


def test_the_gram_order_outlives_the_associative_one(record: HalfPrecisionRecord) -> None:
    """In float16 the default is finite at every size tried, the associative order is not."""
    auto, associative = (_float16(record, f"scaled, {order}") for order in ("auto", "associative"))
    assert auto.finite == record.settings.largest
    assert associative.finite is not None
    assert associative.finite < 100
    assert associative.failure == "z not finite"


def test_every_row_is_consistent(record: HalfPrecisionRecord) -> None:
    """What is right is finite, and a failure is named where not everything is right."""
    assert len(record.rows) == len({(row.method, row.setting) for row in record.rows})
    for row in record.rows:
        assert (row.right or 0) <= (row.finite or 0) <= record.settings.largest
        assert bool(row.failure) == (row.right != record.settings.largest)
        assert (row.gradient_error is not None) == row.setting.training
        assert row.error is not None
        assert row.error < 0.05
    assert all(error < half_precision.AGREEMENT for error in record.agreement.values())


def test_the_same_numbers_every_time(record: HalfPrecisionRecord) -> None:
    """Everything is seeded."""
    torch.manual_seed(7)
    method, row = BY_NAME["scaled, auto"], record.rows[0]
    assert half_precision._row(method, row.setting, "cpu") == row


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_agrees_with_its_equations(method: Method) -> None:
    """In float32, values and gradients; in float64 to its last digits."""
    assert checked(method, TINY, "cpu") < half_precision.AGREEMENT
    x, grad = (v.double() for v in Case(TINY, torch.float32, 1.0, True, "cpu").tensors())
    block = method.block(TINY.channels, "cpu").double()
    found = results(block, x, grad)
    truth = results(block, x, grad, literal=True)
    for name, value in truth.items():
        torch.testing.assert_close(found[name], value, rtol=1e-8, atol=1e-10)


def test_a_wrong_method_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that computes something else ends the benchmark with a sentence."""
    method = BY_NAME["cross-covariance"]
    monkeypatch.setattr(method.kind, "attend", lambda _, q, k, v: q + k + v)
    with pytest.raises(CommandError, match=r"cross-covariance is .* away from its equations"):
        checked(method, TINY, "cpu")


def test_a_branch_that_vanishes_is_finite_but_not_right() -> None:
    """With half buffers an infinite variance sets the gain to 0: the error of the branch is 1."""
    case = Case(TINY, torch.float16, 16.0, False, "cpu")
    outcome = measured(BY_NAME["scaled, gram"], case, "half")
    wide = measured(BY_NAME["scaled, gram"], case, "float32 norm")
    assert outcome.branch == math.inf or outcome.branch > 0.5
    assert wide.finite
    assert wide.branch < 0.01


def test_rounding_of_z_itself_is_not_counted() -> None:
    """An exact branch, rounded with z, has no error left."""
    case = Case(TINY, torch.bfloat16, 4096.0, False, "cpu")
    truth, _ = exact(BY_NAME["softmax, fused"].function, case)
    x, _ = case.tensors()
    rounded = truth["z"].bfloat16()
    assert half_precision._error(rounded, truth["z"], x) > 0.1
    outcome = measured(BY_NAME["scaled, auto"], case, "autocast")
    assert outcome.branch > 0.1
    assert max(outcome.errors.values()) < 0.05
