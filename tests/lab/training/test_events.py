"""What TensorBoard reads of runs."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalednl.lab.records.run import Epoch
from scalednl.lab.training.events import Events, hyper_parameters
from scalednl.lab.training.run import run
from tests.lab.training.builders import SETTINGS, small


def _table_of_runs(folder: Path) -> tuple[list[str], list[Any]]:
    """Names of hyper-parameters, those that differ first, and the rows of TensorBoard's table."""
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.context import RequestContext
    from tensorboard.plugins.hparams import (
        api_pb2,
        backend_context,
        get_experiment,
        list_session_groups,
    )

    runs = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory(str(folder))
    runs.Reload()
    provider = data_provider.MultiplexerDataProvider(runs, str(folder))
    backend = backend_context.Context(SimpleNamespace(data_provider=provider))
    place = RequestContext(), backend, ""
    known = get_experiment.Handler(*place, api_pb2.GetExperimentRequest()).run()
    asked = api_pb2.ListSessionGroupsRequest(slice_size=100, allowed_statuses=[0, 1, 2, 3])
    rows = list_session_groups.Handler(*place, asked).run().session_groups
    return [info.name for info in known.hparam_infos], list(rows)


def test_tensorboard_compares_runs_by_their_options(tmp_path: Path) -> None:
    """Its table has every option and the curves' last values; a run that was cut has not ended."""
    settings = replace(SETTINGS, tensorboard=True)
    made = [
        run(small(epochs=1, seed=seed), tmp_path / f"run{seed}", settings, quiet=True)
        for seed in range(2)
    ]
    cut = Events(tmp_path / "cut", small(epochs=1, seed=2))
    cut.add(Epoch(epoch=0), 5)
    cut.close()
    names, rows = _table_of_runs(tmp_path)
    assert set(names) == hyper_parameters(small()).keys() >= {"seed", "block.heads", "lr"}
    # TensorBoard puts what differs between runs first.
    assert names[0] == "seed"
    by_seed = {int(row.hparams["seed"].number_value): row for row in rows}
    assert [by_seed[seed].sessions[0].status for seed in range(3)] == [1, 1, 0]
    for seed, outcome in enumerate(made):
        values = {value.name.tag: value.value for value in by_seed[seed].metric_values}
        assert values["test_error_pct"] == pytest.approx(outcome.result.test_error_pct.last)
        assert by_seed[seed].hparams["block.attention"].string_value == "scaled"
        assert by_seed[seed].hparams["block.heads"].number_value == small().block.heads
        assert by_seed[seed].hparams["augment"].bool_value == small().augment


def test_what_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    """A problem of TensorBoard's own is a warning, and ends its events and nothing else."""
    events = Events(tmp_path, small())
    events._experiment = None  # type: ignore[assignment]
    with pytest.warns(UserWarning, match="TensorBoard events are not written: "):
        events.add(Epoch(epoch=0), 1)
    events.add(Epoch(epoch=1), 2)
    events.finish()
    events.close()
