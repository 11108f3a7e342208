"""What a module comes from: raw data, or private fits with certificates.

Both are noted at the module itself, so that its copies have them too, and another fit that starts
from it or sees rows through it knows (PRIVACY A13).
"""

from __future__ import annotations

from collections.abc import Mapping

from tacit.errors import ParameterError
from tacit.estimators.release.promise import gathered
from tacit.networks.backend import nn
from tacit.privacy.certificate import Certificate

__all__ = ["certificates_behind", "check_unseen", "note_rests", "note_saw"]

_RAW = "saw_raw_data"
_RESTS = "rests_on"


def check_unseen(name: str, module: nn.Module | None) -> None:
    """Raise where a module was trained on raw data without privacy."""
    if module is not None and any(getattr(m, _RAW, False) for m in module.modules()):
        raise ParameterError(
            f"{name} was trained on raw data without privacy, and would carry them into "
            "what is released: pass one that has not seen them, or that of a private fit"
        )


def note_saw(module: nn.Module, raw: bool) -> None:
    """Note whether a module was trained on raw data without privacy."""
    setattr(module, _RAW, raw)


def note_rests(module: nn.Module, certificates: Mapping[str, Certificate]) -> None:
    """Note the certificates behind a module's weights."""
    setattr(module, _RESTS, dict(certificates))


def certificates_behind(modules: Mapping[str, nn.Module | None]) -> dict[str, Certificate]:
    """Return the certificates that some modules rest on, by the modules' names."""
    found = []
    for name, given in modules.items():
        for part in () if given is None else given.modules():
            found += [(f"{name}: {k}", c) for k, c in getattr(part, _RESTS, {}).items()]
    return gathered(found)
