"""Training and inference steps of many kinds, to compare planned bytes with those that are held."""

from tests.support.steps import modules, programs, scripts
from tests.support.steps.catalog import STEPS, Step

__all__ = ["STEPS", "Step", "modules", "programs", "scripts"]
