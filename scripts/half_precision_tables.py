"""The tables of docs/half-precision.md, from the newest stored record."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks.records import HalfPrecisionRecord, HalfRow, HalfSetting
from scalednl.lab.report.markdown import markdown_table

Column = tuple[str, HalfSetting, Callable[[HalfRow], str]]
"""Its title, what was tried, and what the table shows of it"""


def half_precision_parts(record: HalfPrecisionRecord) -> dict[str, str]:
    """The tables, and where they were measured, by the names of their places."""
    first = record.rows[0].setting
    training = replace(first, dtype="float16", precision="autocast", training=True, loss_scale=1.0)
    evaluation = replace(training, training=False)
    wide = replace(training, dtype="bfloat16")
    scales = [row.setting.loss_scale for row in record.rows if row.setting.loss_scale != 1]
    inputs = list(dict.fromkeys(row.setting.features for row in record.rows))

    def limit(row: HalfRow) -> str:
        return _limit(row, record.settings.largest)

    limits: list[Column] = [
        ("training, autocast", training, limit),
        ("with loss scale", replace(training, loss_scale=scales[0]), limit),
        ("training, half", replace(training, precision="half"), limit),
        ("evaluation, autocast", evaluation, limit),
        ("evaluation, half, norm float32", replace(evaluation, precision="float32 norm"), limit),
        ("evaluation, half", replace(evaluation, precision="half"), limit),
    ]
    errors: list[Column] = [
        ("branch, float16", training, _branch),
        ("branch, bfloat16", wide, _branch),
        ("gradients, float16", training, _gradients),
        ("gradients, bfloat16", wide, _gradients),
        ("bfloat16 training up to", wide, limit),
        ("bfloat16 evaluation up to", replace(wide, training=False), limit),
    ]
    others: list[Column] = [
        (str(features), replace(training, features=features), limit) for features in inputs
    ]
    return {
        "limits": _table(record, limits),
        "errors": _table(record, errors),
        "inputs": _table(record, others),
        "origin": f"The loss scale is {scales[0]:.0f}. {record.origin.machine}, "
        f"torch {record.origin.packages['torch']}, {record.origin.date[:10]}.",
    }


def _table(record: HalfPrecisionRecord, columns: Sequence[Column]) -> str:
    rows = {(row.method, row.setting): row for row in record.rows}
    lines = [
        [method, *(show(rows[method, tried]) for _, tried, show in columns)]
        for method in record.agreement
    ]
    return markdown_table(["", *(title for title, _, _ in columns)], lines)


def _limit(row: HalfRow, largest: float) -> str:
    """Up to where it is right, and in brackets up to where it is finite if that is further."""
    right, finite = (_deviation(value, largest) for value in (row.right, row.finite))
    return right if right == finite else f"{right} ({finite})"


def _deviation(value: float | None, largest: float) -> str:
    if value is None:
        return "below 1"
    return "all" if value == largest else f"{value:.0f}"


def _branch(row: HalfRow) -> str:
    return _percent(row.error)


def _gradients(row: HalfRow) -> str:
    return _percent(row.gradient_error)


def _percent(error: float | None) -> str:
    if error is None:
        return "not finite"
    return f"{100 * error:.2g} %" if error >= 1e-4 else "below 0.01 %"
