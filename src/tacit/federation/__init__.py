"""Joint computations between institutions: secure aggregation, site policy, NVFLARE transport.

Needs the extra ``federation``. Everything else of tacit works without it.
"""

from importlib.util import find_spec

from tacit._core.lazy import lazy_names
from tacit.errors import MissingExtra

if any(find_spec(package) is None for package in ("nvflare", "psutil")):
    raise MissingExtra("tacit.federation", "federation")

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "CoordinatorConfig": "files",
        "Policy": "policy",
        "Proposal": "proposal",
        "SiteConfig": "files",
        "SiteService": "service",
        "init_federation": "provision",
        "running_site": "engine.sites",
    },
)
