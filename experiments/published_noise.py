"""What the noise printed in the Ermiş thesis really gives, and what noise its claims need.

Source: Ermiş (2020), sections 7.2.1 and 8.1.1; PRIVACY B1. Poisson sampling, add-remove-one,
noise relative to the clip; the expected values are those of PRIVACY B1, to its two decimals.
"""

from __future__ import annotations

from experiments.runner import Outcome
from tacit.privacy.accounting.accountants import accountant
from tacit.privacy.calibration import gaussian_event, gaussian_noise_multiplier
from tacit.published.noise import PRINTED

EXPECTED = {
    "MNIST, zCDP": 1.51,
    "MNIST, advanced composition": 0.37,
    "synthetic, zCDP": 0.26,
    "synthetic, advanced composition": 0.07,
}


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    for name, noise in PRINTED.items():
        settings = {"rate": noise.rate, "steps": noise.steps}
        row = {
            "setting": name,
            "claimed ε": noise.claimed_epsilon,
            "δ": noise.delta,
            "printed σ": noise.noise_multiplier,
            "real ε": noise.epsilon(),
            "real ε, replace-one": noise.epsilon("replace-one"),
        }
        for kind in ("rdp", "zcdp", "advanced"):
            event = gaussian_event(noise.noise_multiplier, **settings)
            row[f"ε by {kind}"] = accountant(kind).add(event).epsilon(noise.delta)
        row["σ that the claim needs"] = gaussian_noise_multiplier(
            noise.claimed_epsilon, noise.delta, **settings
        )
        outcome.rows.append(row)
        outcome.check(
            f"real ε of {name}",
            row["real ε"],
            f"{EXPECTED[name]:.2f}",
            round(row["real ε"], 2) == EXPECTED[name],
        )
    return outcome
