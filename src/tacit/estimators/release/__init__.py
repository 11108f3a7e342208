"""Releases: what was learned as a folder that opens without tacit and runs no code.

release/
  README.md           what it is, what was learned, the promise, how to load it
  manifest.json       plain JSON: estimator, settings, arrays with dimensions and coordinates
  arrays.npz          the arrays under their own names, never pickled
  tables/*.csv        the same numbers beside the names of what they are about
  certificates.json   every certificate that the numbers rest on
  SHA256SUMS          of all of the above: ``sha256sum -c SHA256SUMS``
  SHA256SUMS.sig      Ed25519 signatures of SHA256SUMS, where a ledger with a key paid

`layout` says what such a folder holds, `write` and `read` make and verify one, `archive` opens
arrays of strangers, `plain` is what may stand in JSON, `promise` puts certificates together,
`signature` signs, `words` is the README, `older` reads earlier schemas.
"""

from tacit.estimators.release.layout import Release
from tacit.estimators.release.read import read_release
from tacit.estimators.release.write import write_release

__all__ = ["Release", "read_release", "write_release"]
