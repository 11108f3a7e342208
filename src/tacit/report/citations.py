"""What to cite: the methods behind a result, as BibTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files

from tacit._version import __version__
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import GaussianDpEvent, PoissonSampledDpEvent, leaves

__all__ = ["citation_keys", "citations"]


_TEXT = (files(__package__) / "citations.bib").read_text(encoding="utf-8").rstrip()
_ENTRIES = {entry[entry.index("{") + 1 : entry.index(",")]: entry for entry in _TEXT.split("\n\n")}
_ENTRIES["tacit"] = f"""@software{{tacit,
  author = {{{{The tacit developers}}}},
  title = {{tacit: differentially private factorization and {{B}}ayesian inference}},
  version = {{{__version__}}}
}}"""


def citation_keys(certificates: Mapping[str, Certificate], cites: Iterable[str] = ()) -> list[str]:
    """Return the keys of what a result rests on, from its events and its agreement.

    ``certificates`` maps holders to theirs; ``cites`` is what the agreement builds on.
    """
    keys = ["tacit"]
    private = [c for c in certificates.values() if c.is_private]
    if private:
        keys.append("dwork2006")
    if any(c.accountant == "pld" for c in private):
        keys.append("doroshenko2022")
    found = [leaf for c in private for leaf in leaves(c.event)]
    if any(isinstance(leaf, GaussianDpEvent | PoissonSampledDpEvent) for leaf in found):
        keys.append("canonne2020")
    if any(isinstance(leaf, PoissonSampledDpEvent) for leaf in found):
        keys.append("abadi2016")
    keys += [key for key in cites if key in _ENTRIES]
    return list(dict.fromkeys(keys))


def citations(keys: Iterable[str]) -> str:
    """Return BibTeX entries.

    >>> citations(["chien2021"]).splitlines()[0]
    '@inproceedings{chien2021,'
    """
    return "\n\n".join(_ENTRIES[key] for key in keys)
