"""What holds for all tests. Hypothesis judges speed by default, and that is a matter of the machine: not here."""

from hypothesis import HealthCheck, settings

settings.register_profile("barnabas", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("barnabas")
