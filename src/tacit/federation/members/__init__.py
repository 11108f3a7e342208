"""Who belongs to a federation: keys made at home, requests, approvals, rosters."""
