"""The most dangerous mistakes, written by hand: (file, old text, new text, why).

Each lets a stated ε or a secret go; those that are hard to see (`benchmarks._mutants.subtle`) and
those about secure sums (`benchmarks._mutants.secrets`) have files of their own. The old text
stands once in its file; where the code has changed so that it does not, the entry is out of date
(a test looks at all of them).
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks._mutants.mutant import SOURCE, Mutant
from benchmarks._mutants.secrets import SECRETS
from benchmarks._mutants.subtle import SUBTLE

STATED: tuple[tuple[str, str, str, str], ...] = (
    # -- accounting -----------------------------------------------------------------------------
    (
        "privacy/events.py",
        "GaussianDpEvent(event.noise_multiplier / 2)",
        "event",
        "replace-one without the doubled reach: 1.99 for 4.38",
    ),
    (
        "privacy/events.py",
        "walk(child, times * count)",
        "walk(child, times)",
        "a repeated step is counted once",
    ),
    (
        "privacy/events.py",
        "return as_exact(parameter) * sensitivity",
        "return as_exact(parameter)",
        "geometric noise without its sensitivity",
    ),
    (
        "privacy/events.py",
        "case PoissonSampledDpEvent(sampling_probability=0.0):",
        "case PoissonSampledDpEvent():",
        "sampled steps are free",
    ),
    ("privacy/calibration.py", "repeat(step, steps)", "step", "many steps are counted as one"),
    (
        "privacy/calibration.py",
        "PoissonSampledDpEvent(rate, GaussianDpEvent(noise_multiplier), neighbours)",
        "PoissonSampledDpEvent(rate, GaussianDpEvent(noise_multiplier))",
        "sampled replace-one is accounted as add-remove",
    ),
    (
        "privacy/certificate.py",
        "epsilon=max([total, *(epsilon for _, epsilon in table.values())])",
        "epsilon=total",
        "the dearest group is left out of the headline",
    ),
    # -- ledger ---------------------------------------------------------------------------------
    (
        "privacy/ledger/filters.py",
        "as_exact(math.nextafter(epsilon, math.inf)), as_exact(delta)",
        "as_exact(epsilon) / 2, as_exact(delta)",
        "a ledger is charged half",
    ),
    (
        "privacy/ledger/filters.py",
        "rho = math.fsum(n * r for n, r, _ in parts)",
        "rho = math.fsum(n * r for n, r, _ in parts) / 4",
        "a fourfold too small ρ",
    ),
    (
        "privacy/ledger/filters.py",
        "total += n * gaussian.inverse_square(leaf.noise_multiplier)",
        "total += gaussian.inverse_square(leaf.noise_multiplier)",
        "μ² of one step for all",
    ),
    (
        "privacy/ledger/ledger.py",
        "            if amount > self._ceiling.amount(total_delta):\n",
        "            if False:\n",
        "a ledger without a ceiling for ε",
    ),
    (
        "privacy/ledger/ledger.py",
        "if row_leaves(first) != leaves(schedule):",
        "if False:",
        "another schedule is drawn under a paid run's name",
    ),
    (
        "privacy/ledger/reservation.py",
        "self._left[leaf] = self._left.get(leaf, 0) - n",
        "self._left[leaf] = self._left.get(leaf, 0)",
        "what was claimed can be claimed again",
    ),
    (
        "privacy/ledger/reservation.py",
        "            mine.remove(wanted.position)\n",
        "",
        "a named step is drawn twice in one process",
    ),
    (
        "privacy/ledger/reservation.py",
        "            if start <= first < end:\n                stop = first",
        "            if start <= first < end:\n                stop = stop",
        "a named step is drawn again after a restart",
    ),
    # -- the gate -------------------------------------------------------------------------------
    ("mechanisms/base.py", "        ledger.claim()\n", "        pass\n", "a step is drawn unpaid"),
    (
        "mechanisms/base.py",
        "        ledger.claim(event)\n",
        "        pass\n",
        "a release is drawn unpaid",
    ),
    (
        "mechanisms/base.py",
        "        ledger.charge(event, purpose=purpose, delta=delta, terms=_terms("
        "mechanism, ledger, delta))\n",
        "        pass\n",
        "a ledger is not charged",
    ),
    (
        "mechanisms/base.py",
        "        rng.seeded = True  # its certificates are not for release\n",
        "",
        "what was drawn under watch looks like a release",
    ),
    (
        "estimators/gate.py",
        "if not step.affords(chosen):",
        "if False:",
        "a dearer mechanism than was agreed on",
    ),
    (
        "estimators/gate.py",
        "step.name, position, step.times, step.price",
        "step.name, 0, step.times, step.price",
        "every round claims the first",
    ),
    (
        "estimators/fit.py",
        "return Noise(kind)\n",
        "return Noise(kind, seed=0)\n",
        "predictable noise that is not asked for",
    ),
    (
        "estimators/fit.py",
        "assumptions=assumptions + gate.noise.assumptions + notes",
        "assumptions=assumptions + notes",
        "seeded noise is not said",
    ),
    # -- what a site answers --------------------------------------------------------------------
    ("estimators/shards.py", "if round != self.round:", "if False:", "rounds in any order"),
    (
        "estimators/shards.py",
        "if step.name == name and used < step.times:",
        "if step.name == name:",
        "a step is asked more often than was agreed",
    ),
    (
        "estimators/shards.py",
        "if request.digest != self._last[0].digest:",
        "if False:",
        "an answered round, asked again with another content, is not refused",
    ),
    (
        "estimators/steps.py",
        "if kind.mechanism is None and kind.sensitivity > largest * _ROOM:",
        "if False:",
        "a kind that moves a sum further than its noise is for",
    ),
    (
        "estimators/agreement.py",
        "events = [step.event for step in private if step.part is None]",
        "events = [step.price for step in private if step.part is None]",
        "a step of many rounds is priced as one",
    ),
    # -- noise ----------------------------------------------------------------------------------
    (
        "mechanisms/additive.py",
        "return self.scale / (self.sensitivity + growth)",
        "return self.scale / self.sensitivity",
        "rounding to the grid is free",
    ),
    (
        "mechanisms/laplace.py",
        "return noise.laplace(count, scale)",
        "return noise.laplace(count, scale / 2)",
        "half of the noise",
    ),
    (
        "mechanisms/gaussian.py",
        "return noise.gaussian(count, scale)",
        "return noise.gaussian(1, scale).repeat(count)",
        "one draw for all numbers",
    ),
    (
        "mechanisms/gaussian_share.py",
        "noise.gaussian(count, scale / math.sqrt(self.shares))",
        "noise.gaussian(count, scale / self.shares)",
        "shares that add up to too little noise",
    ),
    (
        "mechanisms/geometric.py",
        "scale = self.sensitivity / self.epsilon * (1.0 + 2.0**-40)",
        "scale = 1.0 / self.epsilon",
        "geometric noise without the sensitivity",
    ),
    (
        "mechanisms/sampled.py",
        "return PoissonSampledDpEvent(self.rate, inner, self.neighbours)",
        "return PoissonSampledDpEvent(self.rate, inner)",
        "sampled replace-one as add-remove",
    ),
    (
        "mechanisms/clipping.py",
        "factors = np.where(lengths > norm * room, norm * room / lengths, 1.0)",
        "factors = np.ones_like(lengths)",
        "nobody is clipped",
    ),
    (
        "mechanisms/noise.py",
        "self.stream = WordStream(seed)",
        "self.stream = WordStream(0)",
        "noise that everybody can repeat",
    ),
    (
        "mechanisms/grid.py",
        "(1.0 if neighbours == REPLACE else 0.5)",
        "0.5",
        "half of the growth under replace-one",
    ),
)
ENTRIES = (*STATED, *SUBTLE, *SECRETS)


def dangerous() -> Iterator[Mutant]:
    """Yield the entries that fit the source as it is."""
    for file, old, new, why in ENTRIES:
        text = (SOURCE / file).read_text(encoding="utf-8")
        if text.count(old) == 1:
            start = text.index(old)
            line = text.count("\n", 0, start) + 1
            name = f"{file}:by-hand:{why.partition(':')[0].replace(' ', '-')}:1"
            yield Mutant(name, file, start, start + len(old), new, line, why, True)


def out_of_date() -> list[str]:
    """Return the entries whose old text does not stand once in its file."""
    found = []
    for file, old, _, why in ENTRIES:
        path = SOURCE / file
        count = path.read_text(encoding="utf-8").count(old) if path.exists() else 0
        if count != 1:
            found.append(f"{file}: {why} ({old!r} is there {count} times)")
    return found
