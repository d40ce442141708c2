"""What training code calls: seeds that make a loader reproducible, and a guard that watches loaders during training."""

from dataguard.training.seeding import make_generator, seed_everything, seed_worker
from dataguard.training.violations import ContractViolation, ContractWarning

__all__ = ["ContractViolation", "ContractWarning", "make_generator", "seed_everything", "seed_worker"]
