"""Joint computations between institutions: secure aggregation, site policy, NVFLARE transport.

Needs the extra ``federation``. Everything else of tacit works without it.
"""

from importlib.util import find_spec

from tacit.errors import MissingExtra

if any(find_spec(package) is None for package in ("nvflare", "psutil")):
    raise MissingExtra("tacit.federation", "federation")
