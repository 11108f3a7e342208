"""The errors that tacit raises: each says what was wrong, where, and what to pass instead."""


class TacitError(Exception):
    """Base of every error that tacit raises on purpose."""


class ParameterError(TacitError, ValueError):
    """A parameter has the wrong type or value."""


class UnboundedData(TacitError, ValueError):
    """A public bound is missing; nothing is read from private data to replace it."""


class BudgetExceeded(TacitError):
    """A ledger refused a charge; nothing was drawn and nothing was released."""


class NotCertified(TacitError):
    """No guarantee can be computed for what was asked."""


class VerificationFailed(TacitError):
    """A certificate, ledger or release does not agree with itself."""


class LedgerError(TacitError):
    """A ledger cannot be opened, read or written."""


class LedgerCorrupt(LedgerError, VerificationFailed):
    """A ledger file is damaged or was edited; its remaining budget cannot be trusted."""


class HoldsData(TacitError, TypeError):
    """An object that holds raw data was to be pickled or copied; it says what to keep instead."""

    @classmethod
    def of(cls, model: object, held: str, back: str) -> "HoldsData":
        """Return it for a fitted model that a release can be made of."""
        name = type(model).__name__
        return cls(
            f"a fitted {name} holds {held}, and is neither pickled nor copied: keep "
            f"model.release(folder), and read {name}.{back}"
        )


class NothingReleased(TacitError):
    """A release failed after its charge; the reason stays with the data holder.

    ``reason`` is for the holder alone: it stands in no text, record or pickle of this error.
    """

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (str(self),)


class SiteFailure(TacitError):
    """A participant of a joint computation failed, lagged or sent nonsense."""


class RequestRefused(SiteFailure):
    """A site was asked for something that its agreement does not name; nothing was computed.

    ``about`` names the sentence that may be sent (`tacit.federation.refusals`); the text is for
    the holder's own log.
    """

    def __init__(self, text: str, about: str = "request") -> None:
        super().__init__(text)
        self.about = about


class PolicyRefused(TacitError):
    """A site's policy does not allow what was proposed; no data was read.

    ``about`` names the sentence that may be sent (`tacit.federation.refusals`).
    """

    def __init__(self, text: str, about: str = "settings") -> None:
        super().__init__(text)
        self.about = about


class MissingExtra(TacitError, ImportError):
    """A feature needs packages that are not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra {extra!r}: pip install 'tacit[{extra}]'")
