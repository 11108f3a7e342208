"""Settings of the test suite."""

from hypothesis import HealthCheck, settings

# The machine is shared and slow at times: no test may depend on the clock.
settings.register_profile(
    "tacit", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)  # fmt: skip
settings.load_profile("tacit")
