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
    (
        "federation/secure/site.py",
        "member.done = done\n",
        "member.done = min(done, 3)\n",
        "after a restart shares are shown again for another list",
    ),
    (
        "federation/secure/site.py",
        "member.mask(self._boxes(request), values, request.digest)",
        "member.mask(self._boxes(request), values)",
        "masks are not bound to the request",
    ),
    (
        "federation/secure/exchange.py",
        'terms.about("mask", *sorted((name, other)), asked.hex())',
        'terms.about("mask", *sorted((name, other)))',
        "answers to different requests add up",
    ),
    (
        "federation/secure/exchange.py",
        "digest = hashlib.sha256(self.session)\n",
        "digest = hashlib.sha256()\n",
        "signed keys of one session are good in another",
    ),
    (
        "federation/secure/exchange.py",
        "(*self.sites, str(self.threshold), str(self.bits))",
        "(*self.sites, str(self.bits))",
        "sites sign without the threshold",
    ),
    (
        "federation/secure/exchange.py",
        "        for part in (what, *names):\n",
        "        for part in (what,):\n",
        "a signature does not say whose keys they are",
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
