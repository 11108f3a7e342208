"""What an attack got, in the units of the bars."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass
class Got:
    """How often it was tried, and what came of it.

    Attributes
    ----------
    attempts
        Requests, messages, connections or runs.
    files
        Bytes of a site's own files.
    code
        Lines of foreign code that ran where a site's data is.
    sums
        Sums of fewer sites than the threshold that could be read.
    certificates
        Certificates, or runs that would end in one, with an ε below the truth.
    facts
        Texts that left with a mark of what is private.
    other
        What else the law forbids: an agreement beyond the policy, a second answer, a wrong result,
        a paid run that was lost, a word to a stranger.
    megabytes, seconds
        The most that one refused request cost a site.
    """

    attempts: int = 0
    files: int = 0
    code: int = 0
    sums: int = 0
    certificates: int = 0
    facts: int = 0
    other: int = 0
    megabytes: float = 0.0
    seconds: float = 0.0

    @property
    def won(self) -> int:
        """All that counts as a gain."""
        return self.files + self.code + self.sums + self.certificates + self.facts + self.other

    def __iadd__(self, more: Got) -> Got:
        for field in fields(self):
            ours, theirs = getattr(self, field.name), getattr(more, field.name)
            most = field.name in ("megabytes", "seconds")
            setattr(self, field.name, max(ours, theirs) if most else ours + theirs)
        return self
