"""Generated changes that are no mistakes: name → why nothing that matters changes.

They are not tried. A name that no operator makes any more fails the tests.
"""

from __future__ import annotations

_GUESS = (
    "a first guess of `solve_decreasing`, which widens it until it holds the root and returns "
    "only what meets the target"
)
_ONE = "the weights W0, W1 and W3 are one (or nought): squared they are the same"

EQUIVALENT: dict[str, str] = {
    "privacy/accounting/gaussian.py:gdp_to_dp:factors:2": _GUESS,
    "privacy/accounting/gaussian.py:dp_to_gdp:factors:2": _GUESS,
    "privacy/accounting/gaussian.py:zcdp_to_dp:factors:2": _GUESS,
    "privacy/accounting/gaussian.py:dp_to_zcdp:powers:1": _GUESS,
    "privacy/accounting/gaussian.py:dp_to_zcdp:extremes:1": _GUESS,
    "privacy/calibration.py:calibrate:factors:1": _GUESS,
    "privacy/accounting/gaussian.py:solve_decreasing:comparisons:6": (
        "an end whose excess is exactly zero is the root, and toms748 returns it at once"
    ),
    "privacy/accounting/gaussian.py:gdp_deltas:clips:1": (
        "0 ≤ φ(a)·(R(a) − R(b)) ≤ Φ(−a) ≤ 1 for b ≥ a, and the other branch is the same number "
        "where it is nearly 1: the clip is there for rounding that does not happen"
    ),
    "moments/agreement.py:MomentAgreement._steps:roundings:1": (
        "1.25·2^16 is whole, and a 2 among whole numbers is refused for the length of its column"
    ),
    "regression/agreement.py:_farthest:powers:4": (
        "a length is cut at d, and d + c − c² is no less than d for c = 0 and c = ½"
    ),
    "summary/layout.py:Layout._of_one_row:powers:1": _ONE,
    "summary/layout.py:Layout._of_one_row:powers:3": _ONE,
    "summary/layout.py:Layout._of_one_row:powers:4": _ONE,
    "summary/layout.py:Layout._of_one_row:powers:5": _ONE,
    "summary/layout.py:Layout._of_one_row:powers:6": _ONE,
    "summary/layout.py:Layout._of_one_row:powers:7": _ONE,
    "summary/layout.py:Layout._of_one_row:powers:9": _ONE,
    "summary/layout.py:Layout._of_one_row:powers:11": _ONE,
    "summary/layout.py:Layout._of_one_row:powers:14": _ONE,
    "summary/layout.py:Layout._of_one_row:powers:15": _ONE,
    "summary/agreement.py:SummaryAgreement.worst_case:powers:1": _ONE,
    "summary/layout.py:Layout._of_one_row:powers:8": (
        "W1 and W2 are the constants 1 and 2, for which 2·W1² ≤ W2 holds as 2·W1² ≤ W2² does"
    ),
    "summary/sides.py:_scaled:clips:2": (
        "values were clipped to their bounds before: t exceeds 1 by a rounding at most, some 2⁻⁵² "
        "where the grid has steps of 2⁻⁴⁰ and more"
    ),
    "privacy/ledger/reservation.py:Reservation._top_up:skipped-calls:1": (
        "what is left is read only after every row since `seen` was noted, this one among them"
    ),
    "privacy/accounting/shuffled.py:_even_tails:extremes:2": (
        "beyond `count` there is no mass: 1/Γ of a whole number below one is nought"
    ),
    "privacy/certificate.py:_agrees:connectives:1": (
        "where one of two numbers is infinite, math.isclose is false as == is"
    ),
    "mechanisms/noise.py:Noise.sample:comparisons:1": (
        "one more block of gaps is drawn beyond the end, and what lies there is cut off"
    ),
}
