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
        "masked += keys.stream(self.seed, masked.size, bits)",
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
        "other: held[width:] if other in arrived else held[:width]",
        "other: held",
        "shares of key and seed of one site are shown together",
    ),
    (
        "federation/secure/exchange.py",
        "if self.done != number:",
        "if False:",
        "an exchange is answered twice",
    ),
    (
        "federation/secure/exchange.py",
        "                keys.verify(self._partners[other], advert[64:], text, other)\n",
        "                pass\n",
        "keys that the coordinator made are accepted",
    ),
    (
        "federation/secure/exchange.py",
        "if not n / 2 < self.threshold <= n:",
        "if not 0 < self.threshold <= n:",
        "two halves can be asked for different secrets",
    ),
    (
        "federation/secure/site.py",
        "if threshold < self.minimum:",
        "if False:",
        "a sum over fewer sites than the policy asks for",
    ),
)
