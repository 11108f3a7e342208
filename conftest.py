"""Settings of the test suite."""

import os

import pytest
from hypothesis import HealthCheck, settings

# Workers are as many as cores. Were each to start as many threads for its linear algebra, these
# would wait for each other with full power: a factorization of 500 x 500 then takes seconds. Set
# here, before NumPy is loaded, and inherited by workers and by the processes that tests start.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# The machine is shared and slow at times: no test may depend on the clock.
settings.register_profile(
    "tacit", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)  # fmt: skip
settings.load_profile("tacit")


class _Everything(set):
    """A set that holds whatever is asked for."""

    def __contains__(self, _):
        return True


@pytest.fixture(autouse=True)
def without_rehearsals(request, monkeypatch):
    """Let tests count and record what a run does: a rehearsal before it would be counted too."""
    if "test_charge_last" in request.node.nodeid or "rehearsal" in request.node.nodeid:
        return
    from tacit.estimators import rehearsal

    monkeypatch.setattr(rehearsal, "_done", _Everything())
