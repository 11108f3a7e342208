"""What a site says when it refuses: one byte, which stands for one of the sentences below.

Whatever leaves a site is a function of public facts and released numbers (PRIVACY A11). A refusal
is therefore chosen from a fixed list by what was *asked*; once data have been looked at there is
one sentence for every cause. The whole reason goes to the holder's own log.

The order of the sentences is part of the wire: new ones are added at the end.
"""

from __future__ import annotations

from tacit.errors import BudgetExceeded, PolicyRefused, RequestRefused

__all__ = ["SENTENCES", "code_of", "sentence"]

SENTENCES = {
    "silent": "the site cannot answer, and why is in its own log",
    "call": "there is no such call",
    "message": "the message is none of tacit's, too long, or belongs to another run or request",
    "order": "this may not be asked now: calls, steps and rounds come in order, once each",
    "request": "the request is not one that may be made at this point of the run",
    "proposal": "the proposal cannot be read",
    "version": "the two sides do not agree on what is public: compare versions",
    "opened": "the run was opened or closed before, with something else",
    "budget": "the site's ledger does not admit this run, and nothing was charged",
    "coordinator": "the proposal is not signed by a coordinator that the site knows",
    "computation": "the site's policy does not allow this computation",
    "guarantee": "the site's policy asks for a guarantee, stated in fields that it knows",
    "epsilon": "the site's policy allows a smaller epsilon only",
    "delta": "the site's policy allows a smaller delta only",
    "unit": "the site's policy protects another unit",
    "neighbours": "the site's policy asks for another neighbour relation",
    "trust": "the site's policy asks for another trust",
    "sites": "the site's policy does not allow these sites, or the site is not among them",
    "partners": "the site's policy asks for more sites",
    "threshold": "the site's policy asks for sums over more sites",
    "colluding": "the site's policy asks for noise against more colluding sites",
    "seed": "the site's policy does not allow predictable noise",
    "settings": "the site's policy does not allow these settings, or they cannot be used",
    "rounds": "the site's policy allows fewer rounds",
    "period": "the site's policy allows no more runs, or no more epsilon, for now",
    "identities": "the site has no identity, or has not pinned those of all sites",
    "exchange": "the secure sum was not asked for as it was agreed",
}
_NAMES = tuple(SENTENCES)


def code_of(error: Exception) -> int:
    """Return the byte that may be sent for an error; anything unforeseen is silent.

    >>> sentence(code_of(KeyError("patient 7")))
    'the site cannot answer, and why is in its own log'
    """
    about = "silent"
    if isinstance(error, RequestRefused | PolicyRefused):
        about = error.about
    elif isinstance(error, BudgetExceeded):
        about = "budget"
    return _NAMES.index(about) if about in SENTENCES else 0


def sentence(code: int) -> str:
    """Return what a byte stands for."""
    return SENTENCES[_NAMES[code]] if 0 <= code < len(_NAMES) else "the site refuses"
