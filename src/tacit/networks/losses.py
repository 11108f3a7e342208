"""Losses with one value per example, each of its own output alone."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from typing import Any

from tacit.networks.backend import functional, torch

__all__ = ["CrossEntropy", "SquaredError", "loss_text"]


@dataclass(frozen=True)
class CrossEntropy:
    """Minus the log-probability of the class; targets are numbers of classes.

    >>> CrossEntropy()(torch.zeros(1, 2), torch.tensor([1])).item().__round__(4)
    0.6931
    """

    def __call__(self, outputs: Any, targets: Any) -> Any:
        """Return one loss per example."""
        return functional.cross_entropy(outputs, targets, reduction="none")

    def made_up(self, count: int) -> Any:
        """Return targets that are no secret."""
        return torch.zeros(count, dtype=torch.int64)


@dataclass(frozen=True)
class SquaredError:
    """Minus the log-density of a response in [−1, 1] with normal errors, up to a constant.

    Parameters
    ----------
    sd
        Standard deviation of the response given the network.

    Examples
    --------
    >>> SquaredError(0.5)(torch.zeros(1, 1), torch.tensor([1.0])).item()
    2.0
    """

    sd: float

    def __call__(self, outputs: Any, targets: Any) -> Any:
        """Return one loss per example."""
        return 0.5 * functional.mse_loss(outputs[:, 0], targets, reduction="none") / self.sd**2

    def made_up(self, count: int) -> Any:
        """Return targets that are no secret."""
        return torch.ones(count, dtype=torch.float32)


def loss_text(loss: Any) -> str:
    """Return a loss in words that are the same in every process."""
    if is_dataclass(loss):
        return repr(loss)
    kind = loss if hasattr(loss, "__qualname__") else type(loss)
    return f"{kind.__module__}.{kind.__qualname__}"
