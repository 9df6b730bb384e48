"""What judges this project rather than your machine; run one by `python -m benchmarks.planner`."""
