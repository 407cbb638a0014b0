"""Settings for the whole suite, made before any test module is imported.

One thread for numerical libraries: the suite runs on few cores, beside Ray's processes. And no
limit on how long hypothesis takes to make an example: how fast the machine is, is no property.
"""

import os

from hypothesis import HealthCheck, settings

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

settings.register_profile(
    "house", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("house")
