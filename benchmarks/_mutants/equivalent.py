"""Generated changes that are no mistakes: name → why nothing that matters changes.

They are not tried. A name that no operator makes any more fails the tests.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
