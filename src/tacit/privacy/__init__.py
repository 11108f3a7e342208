"""What may be said: guarantees, events, accountants, calibration and ledgers.

Numbers only; nothing here ever sees data.
"""

from tacit._core.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Certificate": "certificate",
        "Ledger": "ledger.ledger",
        "Privacy": "guarantee",
        "Terms": "ledger.terms",
        "accountant": "accounting.accountants",
        "best_guess": "promises",
        "calibrate": "calibration",
        "curve_of": "curve",
        "dp_to_gdp": "accounting.gaussian",
        "epsilon_of": "accounting.accountants",
        "events": "",
        "gaussian_event": "calibration",
        "gaussian_noise_multiplier": "calibration",
        "gaussian_sigma": "calibration",
        "gdp_to_dp": "accounting.gaussian",
        "split_budget": "calibration",
    },
)
