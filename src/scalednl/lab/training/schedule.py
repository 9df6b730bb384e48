"""The learning rate of every step, from the experiment alone; there is no state to save."""

import math

from scalednl.lab.config import Experiment

WARM_UP = 0.3
"""Share of a one-cycle run in which the rate rises"""
START = 1 / 25
"""Rate of its first step, relative to the largest"""


def learning_rate(experiment: Experiment, epoch: int, step: int, steps: int) -> float:
    """The rate of a step of an epoch of `steps` steps.

    "steps" divides by 10 when the epoch, counted from 0, reaches a milestone. "one-cycle" rises and
    falls along half cosines.
    """
    if experiment.schedule == "steps":
        reached = sum(epoch >= milestone for milestone in experiment.milestones)
        return experiment.lr * 0.1**reached
    done = (epoch * steps + step) / (experiment.epochs * steps)
    if done < WARM_UP:
        return experiment.lr * (1 - (1 - START) * _falling(done / WARM_UP))
    return experiment.lr * _falling((done - WARM_UP) / (1 - WARM_UP))


def _falling(part: float) -> float:
    """From 1 at 0 to 0 at 1."""
    return (1 + math.cos(math.pi * part)) / 2
