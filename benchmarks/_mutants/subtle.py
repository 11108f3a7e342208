"""Dangerous mistakes that read like the right line: order, signs, widths, slack and binding.

See `benchmarks._mutants.dangerous`, whose list they are a part of.
"""

from __future__ import annotations

SUBTLE: tuple[tuple[str, str, str, str], ...] = (
    # -- order ----------------------------------------------------------------------------------
    (
        "mechanisms/base.py",
        "    mechanism.check(value)\n",
        "    mechanism.check(value)\n    mechanism.draw(value, rng)\n",
        "noise is drawn before the charge",
    ),
    (
        "mechanisms/base.py",
        "    except Exception as error:\n",
        "    except ArithmeticError as error:\n",
        "the reason of a failed draw leaves",
    ),
    (
        "estimators/shards.py",
        "self.settle(step, asked, released, self.kept)\n        return self._checked",
        "self.settle(step, asked, value, self.kept)\n        return self._checked",
        "a site goes on from what was not released",
    ),
    (
        "estimators/gate.py",
        "            path.unlink()\n",
        "            pass\n",
        "a key of noise outlives its run",
    ),
    (
        "rounds/checkpoint.py",
        "        self.outbox.put(request, reply, self.participant.state())\n",
        "",
        "a reply leaves before it is kept",
    ),
    (
        "rounds/checkpoint.py",
        "if request.round <= reply.round:",
        "if request.round < reply.round:",
        "the last round is answered again to another request after a restart",
    ),
    # -- slack ----------------------------------------------------------------------------------
    (
        "privacy/ledger/ledger.py",
        "amount > self._ceiling.amount(total_delta):\n                self._refuse",
        "float(amount) > float(self._ceiling.amount(total_delta)):\n                self._refuse",
        "a charge slips under the ceiling by a rounding",
    ),
    (
        "privacy/ledger/checking.py",
        "_NEARLY = 1 - Fraction(1, 10**6)",
        "_NEARLY = Fraction(1, 10**6)",
        "a row may state a millionth of its cost",
    ),
    (
        "privacy/certificate.py",
        "rel_tol=1e-6",
        "rel_tol=0.5",
        "a certificate may state half of its ε",
    ),
    (
        "privacy/certificate.py",
        "            ledger.confirm(self.ledger, self.event, self.terms, self.seal)\n",
        "            pass\n",
        "a certificate is not looked up in its ledger",
    ),
    (
        "privacy/ledger/witness.py",
        "row is None or row.digest != entry.digest:",
        "row is None:",
        "a certificate of another charge is confirmed",
    ),
    (
        "privacy/ledger/witness.py",
        "    if paid != stated:\n",
        "    if any(leaf not in stated for leaf in paid):\n",
        "a certificate of fewer steps than were paid for is confirmed",
    ),
    (
        "privacy/ledger/witness.py",
        "if row.terms != terms.digest or",
        "if",
        "a certificate may leave out its assumptions",
    ),
    (
        "privacy/ledger/witness.py",
        "if seen is None or seen.digest != seal.head:",
        "if False:",
        "a ledger that lost rows confirms what it has left",
    ),
    (
        "privacy/ledger/sqlite.py",
        "        if not is_signed(meta.key, head.signature, text):\n",
        "        if False:\n",
        "rows that somebody without the key made are taken for the ledger's own",
    ),
    (
        "privacy/ledger/mark.py",
        "    if seen.counter > end.counter:\n",
        "    if False:\n",
        "removed rows are not noticed",
    ),
    (
        "privacy/groups.py",
        "return most if neighbours == self.neighbours else 2 * most",
        "return most",
        "a unit that is replaced is counted as one that comes or goes",
    ),
    (
        "privacy/groups.py",
        "            return GaussianDpEvent(_shared(multiplier, count))\n",
        "            return GaussianDpEvent(multiplier)\n",
        "a group is charged as one unit",
    ),
    (
        "estimators/gate.py",
        "return self.noise.sample(units, step.mechanism.rate)",
        "return self.noise.sample(units, min(1.0, 2 * step.mechanism.rate))",
        "twice the sample that was paid for",
    ),
    # -- binding --------------------------------------------------------------------------------
    (
        "privacy/ledger/rows.py",
        "return _chain_hash(texts[:-2])",
        "return _chain_hash(texts[:-3])",
        "rows are not chained",
    ),
    (
        "privacy/ledger/rows.py",
        "content = ascii(parts)",
        'content = "".join(map(str, parts))',
        "two rows of different content have one hash",
    ),
    (
        "privacy/ledger/rows.py",
        "Fraction(0), Fraction(0), _chain_hash(tuple(meta)))",
        "Fraction(0), Fraction(0), _chain_hash(tuple(meta[:1])))",
        "the ceiling of a ledger can be raised unnoticed",
    ),
    (
        "estimators/agreement.py",
        '"steps": [step.described() for step in self.steps],',
        '"steps": [step.name for step in self.steps],',
        "two sides agree although their steps differ",
    ),
    (
        "estimators/agreement.py",
        '"privacy": None if privacy is None else repr(privacy),',
        '"privacy": None,',
        "two sides agree although their guarantees differ",
    ),
    # -- signs, widths and what is no number ----------------------------------------------------
    (
        "mechanisms/clipping.py",
        "lengths = np.abs(rows).sum(axis=1)",
        "lengths = rows.sum(axis=1)",
        "opposite numbers cancel in a clipped norm",
    ),
    (
        "mechanisms/clipping.py",
        "    array[np.isnan(array)] = (low + high) / 2.0\n",
        "",
        "what is not a number is not bounded",
    ),
    (
        "mechanisms/grid.py",
        "np.nan_to_num(np.asarray(value, float), posinf=0, neginf=0)",
        "np.nan_to_num(np.asarray(value, float))",
        "an infinite number counts as the largest there is",
    ),
    (
        "mechanisms/grid.py",
        "total = np.zeros(rows.shape[1], np.int64)",
        "total = np.zeros(rows.shape[1], np.int32)",
        "sums wrap around at 32 bits",
    ),
    (
        "mechanisms/noise.py",
        "exact.half_normal().integers(self.stream, count, scale, offset=0.5, signed=True)",
        "exact.half_normal().integers(self.stream, count, scale, offset=0.5, signed=False)",
        "Gaussian noise of one sign",
    ),
    (
        "mechanisms/noise.py",
        "return np.asarray(pair[:count] - pair[count:])",
        "return np.asarray(pair[:count])",
        "geometric noise of one sign",
    ),
    (
        "mechanisms/noise.py",
        "self.seeded = seed is not None",
        "self.seeded = bool(seed)",
        "noise of the seed 0 looks like a release",
    ),
    # -- keys -----------------------------------------------------------------------------------
    ("_core/rng.py", "return os.urandom(32)", "return bytes(32)", "a constant key of noise"),
    (
        "_core/rng.py",
        "        if os.getpid() != self._pid:\n            self._start_anew()\n        fresh",
        "        fresh",
        "a forked child repeats its parent's noise",
    ),
    (
        "_core/rng.py",
        "            if count > self._left:\n                self._restart()\n",
        "",
        "a stream is used beyond what its key is good for",
    ),
    (
        "_core/rng.py",
        'hashlib.sha256(self._key + number.to_bytes(8, "little"))',
        "hashlib.sha256(self._key)",
        "every block of an operator has the same noise",
    ),
    # -- policies -------------------------------------------------------------------------------
    (
        "federation/policy.py",
        "if epsilon > self.epsilon:",
        "if epsilon > self.epsilon + 1:",
        "a proposal may cost more than the policy allows",
    ),
    (
        "federation/policy.py",
        "if privacy.delta > self.delta:",
        "if privacy.delta >= 1:",
        "a proposal may have any δ",
    ),
    (
        "federation/policy.py",
        "if proposal.seed is not None and not self.seeded:",
        "if proposal.seed and not self.seeded:",
        "a proposal seeds the noise with 0",
    ),
    (
        "federation/policy.py",
        "if self.secure and (proposal.threshold or 0) < self.partners:",
        "if self.secure and proposal.threshold and proposal.threshold < self.partners:",
        "a proposal without secure sums where the policy asks for them",
    ),
)
