"""Settings of the test suite."""

import pytest
from hypothesis import HealthCheck, settings

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
