"""Dangerous mistakes in sums that nobody sees through; see `benchmarks._mutants.dangerous`."""

from __future__ import annotations

SECRETS: tuple[tuple[str, str, str, str], ...] = (
    (
        "federation/secure/keys.py",
        'return [int.from_bytes(words[128 * k : 128 * (k + 1)], "little") % PRIME for',
        "return [0 for",
        "every share is the secret itself",
    ),
    (
        "federation/secure/keys.py",
        ".encryptor().update_into(room, room)",
        ".encryptor()",
        "masks of zeros",
    ),
    (
        "federation/secure/keys.py",
        "return ChaCha20Poly1305.generate_key()",
        "return bytes(32)",
        "everybody's seed is known",
    ),
    (
        "federation/secure/keys.py",
        'info=b"tacit 1 " + purpose',
        'info=b"tacit 1 "',
        "one key for all sessions",
    ),
    (
        "federation/secure/keys.py",
        "return ChaCha20Poly1305(key).encrypt(_NONCE, text, context)",
        "return text + bytes(16)",
        "shares travel unsealed",
    ),
    (
        "federation/secure/exchange.py",
        "masked += keys.stream(bytes(self.seed), masked.size, bits)",
        "masked += 0",
        "no mask of the own seed",
    ),
    (
        "federation/secure/exchange.py",
        "*keys.fresh_coefficients(self.terms.threshold - 1),",
        "*keys.fresh_coefficients(1),",
        "two shares give the secret, whatever the threshold",
    ),
    (
        "federation/secure/exchange.py",
        "other: bytes(held[width:] if other in self.arrived else held[:width])",
        "other: bytes(held[:width])",
        "shares of the key of a site that arrived are shown",
    ),
    (
        "federation/secure/exchange.py",
        "if self.done != number:",
        "if False:",
        "an exchange is answered twice",
    ),
    (
        "federation/secure/exchange.py",
        "            check_advert(self.terms, other, adverts[other], self._partners)\n",
        "            pass\n",
        "keys that the coordinator made are accepted",
    ),
    (
        "federation/secure/exchange.py",
        "        self._check_confirmed(signatures)\n",
        "",
        "shares are shown for a list that nobody else confirmed",
    ),
    (
        "federation/secure/exchange.py",
        'return terms.about("confirm", heard(adverts), *_lists(terms, sharers, arrived))',
        "return terms.marks(arrived).tobytes()",
        "a confirmation counts in other runs and steps",
    ),
    (
        "federation/secure/threshold.py",
        "if not sites + colluding < 2 * threshold <= 2 * sites:",
        "if not 0 < 2 * threshold <= 2 * sites:",
        "two lists can be confirmed",
    ),
    (
        "federation/secure/site.py",
        "if last is not None and last.confirmed:",
        "if False:",
        "a second list is confirmed for one step",
    ),
    (
        "federation/secure/terms.py",
        'b"tacit 1 terms", self.run, self.asked,',
        'b"tacit 1 terms", self.run,',
        "sites are asked for different things",
    ),
    (
        "federation/secure/terms.py",
        'b"tacit 1 terms", self.run, self.asked,',
        'b"tacit 1 terms", self.asked,',
        "signed keys of one run are good in another",
    ),
    (
        "federation/secure/terms.py",
        "numbers = (self.threshold, self.colluding,",
        "numbers = (self.colluding,",
        "sites sign without the threshold",
    ),
    (
        "federation/secure/terms.py",
        "return _digest(self.digest, what.encode(), *more)",
        "return _digest(self.digest, what.encode())",
        "a signature does not say whose keys they are",
    ),
    (
        "federation/secure/exchange.py",
        "        member.done = done\n",
        "        member.done = min(done, 3)\n",
        "after a restart another list is confirmed",
    ),
    (
        "federation/computation.py",
        "parts = (threshold or 1) - proposal.colluding if self._in_shares else 1",
        "parts = (threshold or 1) if self._in_shares else 1",
        "the shares of colluding sites count as noise",
    ),
    (
        "federation/secure/keys.py",
        "        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)\n",
        "        Ed25519PublicKey.from_public_bytes(public)\n",
        "no signature is looked at",
    ),
    (
        "federation/secure/keys.py",
        'return hashlib.sha256(b"tacit 1 self mask" + seed).digest()',
        "return seed",
        "the commitment to a seed is the seed",
    ),
    (
        "federation/secure/keys.py",
        'hashlib.sha256(b"tacit 1 self mask" + seed)',
        'hashlib.sha256(b"tacit 1 self mask")',
        "any seed fits a commitment",
    ),
)
