"""Settings for all tests: no hub, one thread, and property tests that repeat exactly."""

from __future__ import annotations

import os

for _name, _value in {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}.items():
    os.environ.setdefault(_name, _value)

from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")
